C     LABELLED AFTER THE RECOGNISER WAS FINISHED: OLD CODE, UPPER CASE.
      SUBROUTINE SAXPYX(N, SA, SX, SY)
      INTEGER N, I, M
      REAL SA, SX(*), SY(*)
      M = MOD(N, 4)
      IF (M .EQ. 0) GO TO 40
      DO 30 I = 1, M                                  ! loop: parallel
        SY(I) = SY(I) + SA*SX(I)                      ! idiom: stream
   30 CONTINUE
      IF (N .LT. 4) RETURN
   40 DO 50 I = M + 1, N, 4                           ! loop: parallel
        SY(I) = SY(I) + SA*SX(I)                      ! idiom: stream
        SY(I + 1) = SY(I + 1) + SA*SX(I + 1)          ! idiom: stream
        SY(I + 2) = SY(I + 2) + SA*SX(I + 2)          ! idiom: stream
        SY(I + 3) = SY(I + 3) + SA*SX(I + 3)          ! idiom: stream
   50 CONTINUE
      END

      SUBROUTINE TRIDAG(A, B, C, R, U, GAM, N)
      INTEGER N, J
      REAL A(N), B(N), C(N), R(N), U(N), GAM(N), BET
      BET = B(1)
      U(1) = R(1)/BET
      DO 11 J = 2, N                                  ! loop: recurrence
        GAM(J) = C(J - 1)/BET
        BET = B(J) - A(J)*GAM(J)                      ! idiom: recurrence
        U(J) = (R(J) - A(J)*U(J - 1))/BET             ! idiom: recurrence
   11 CONTINUE
      DO 12 J = N - 1, 1, -1                          ! loop: recurrence
        U(J) = U(J) - GAM(J + 1)*U(J + 1)             ! idiom: recurrence
   12 CONTINUE
      END

      SUBROUTINE PIKSRT(N, ARR)
      INTEGER N, I, J
      REAL ARR(N), A
      DO 12 J = 2, N                                  ! loop: recurrence
        A = ARR(J)
        DO 11 I = J - 1, 1, -1                        ! loop: unjudged
          IF (ARR(I) .LE. A) GO TO 10
          ARR(I + 1) = ARR(I)                         ! idiom: sort
   11   CONTINUE
        I = 0
   10   ARR(I + 1) = A                                ! idiom: none
   12 CONTINUE
      END

      REAL FUNCTION AMAXX(N, X)
      INTEGER N
      REAL X(N)
      AMAXX = X(1)
      K = 2
  100 IF (K .GT. N) GO TO 200
      IF (X(K) .GT. AMAXX) AMAXX = X(K)               ! idiom: reduction
      K = K + 1
      GO TO 100
  200 CONTINUE
      END

      SUBROUTINE HPROD(N, NZ, IA, JA, H, V, W)
      INTEGER N, NZ, IA(*), JA(*), I, K
      DOUBLE PRECISION H(*), V(*), W(*), T
      DO 20 I = 1, N                                  ! loop: parallel
         T = 0.D0
         DO 10 K = IA(I), IA(I + 1) - 1               ! loop: reduction
            T = T + H(K) * V(JA(K))                   ! idiom: sparse-product-csr (gather, reduction)
   10    CONTINUE
         W(I) = T                                     ! idiom: none
   20 CONTINUE
      END

      SUBROUTINE TABLE(N, IX, Y)
      INTEGER N, IX(N), I
      REAL Y(N), TAB(4)
      DATA TAB /1.0, 2.0, 4.0, 8.0/
      SAVE TAB
      DO 10 I = 1, N                                  ! loop: parallel
   10 Y(I) = TAB(MOD(IX(I), 4) + 1)                   ! idiom: table-lookup
      END

      SUBROUTINE SMOOTH(U, N, M)
      COMMON /GRID/ F(100, 100), G(100, 100)
      DIMENSION U(100, 100)
      DO 10 J = 2, M - 1                              ! loop: parallel
      DO 10 I = 2, N - 1                              ! loop: parallel
      G(I, J) = .2*(F(I, J) + F(I + 1, J) + F(I - 1, J)
     *        + F(I, J + 1) + F(I, J - 1))            ! idiom: stencil
   10 CONTINUE
      DO 20 I = 1, N                                  ! loop: parallel
      DO 20 J = 1, M                                  ! loop: parallel
   20 U(I, J) = G(J, I)                               ! idiom: transpose
      DO 30 I = 2, N                                  ! loop: recurrence
   30 F(I, 1) = F(I - 1, 1)*G(I, 1)                   ! idiom: prefix-scan
      END
