C     Fixed form, FORTRAN 77: labels, shared ends, statement functions,
C     COMMON, arithmetic IF, GOTO loops, continuation lines.
      subroutine shared(n, m, a, b)
      integer n, m, i, j
      real a(n, m), b(n, m)
      do 10 j = 1, m                               ! loop: parallel
      do 10 i = 1, n                               ! loop: parallel
   10 a(i, j) = a(i, j) + b(i, j)                  ! idiom: stream
      end

      subroutine goback(n, a, b)
      integer n, i
      real a(n), b(n)
      i = 1
   20 if (i .gt. n) go to 30
      a(i) = b(i) * 2.0                            ! idiom: stream
      i = i + 1
      go to 20
   30 continue
      end

      subroutine common1
      include 'sizes.inc'
      integer i
      do 40 i = 1, maxn                            ! loop: parallel
         field(i) = work(list(i))                  ! idiom: gather
   40 continue
      do 50 i = 1, maxn
         work(list(i)) = work(list(i))
     &      + field(i)                             ! idiom: gather-modify-scatter
   50 continue
      do 60 i = 2, maxn - 1                        ! loop: parallel
         work(i) = (field(i - 1) + field(i)
     1      + field(i + 1)) / 3.0d0                ! idiom: stencil
   60 continue
      end

      double precision function inner(n, x, y)
      integer n, i
      double precision x(*), y(*), s
      s = 0.0d0
      do 70 i = 1, n                               ! loop: reduction
   70 s = s + x(i) * y(i)                          ! idiom: reduction
      inner = s
      end

      subroutine strided(n, x, inc, y, a)
      integer n, inc, i, ix, iy
      double precision x(*), y(*), a
      ix = 1
      iy = 1
      do 80 i = 1, n                               ! loop: parallel
         y(iy) = y(iy) + a * x(ix)                 ! idiom: stream
         ix = ix + inc
         iy = iy + inc
   80 continue
      end

      subroutine stfunc(n, a, b)
      integer n, i
      real a(n), b(n), x, blend
      blend(x) = 0.25 * x + 0.75
      do 90 i = 1, n                               ! loop: parallel
   90 a(i) = blend(b(i))                           ! idiom: stream
      do 95 i = 2, n                               ! loop: recurrence
   95 a(i) = blend(a(i - 1))                       ! idiom: recurrence
      end

      subroutine flat(n, m, a, b)
      integer n, m, i, j
      real a(*), b(*)
      do 110 j = 0, m - 1                          ! loop: parallel
      do 100 i = 0, n - 1
      a(1 + i + j * n) = b(1 + j + i * m)          ! idiom: transpose
  100 continue
  110 continue
      end

      subroutine sieve(n, a, k)
      integer n, a(n), k, i
      k = 0
      do 140 i = 1, n                              ! loop: recurrence
         if (a(i)) 140, 140, 120
  120    k = k + 1
         a(k) = a(i)                               ! idiom: compaction
  140 continue
      end

      subroutine gemm(n, a, b, c)
      integer n, i, j, k
      real a(n, n), b(n, n), c(n, n), t
      do 200 i = 1, n                              ! loop: parallel
      do 200 j = 1, n                              ! loop: parallel
      t = 0.0
      do 190 k = 1, n                              ! loop: reduction
  190 t = t + a(i, k) * b(k, j)                    ! idiom: matrix-product (reduction)
  200 c(i, j) = t                                  ! idiom: none
      end

      subroutine implct(n, x, l)
      dimension x(n), l(n)
      do 210 i = 1, n
  210 x(l(i)) = 1.0                                ! idiom: scatter
      s = 0.0
      do 220 i = 1, n                              ! loop: reduction
  220 s = amax1(s, x(i))                           ! idiom: reduction
      x(1) = s
      end

      subroutine sweep(n, a)
      integer n, i
      real a(n), old
      do 230 i = 1, n - 1
      if (a(i) .le. a(i + 1)) goto 230
      old = a(i + 1)
      a(i + 1) = a(i)                              ! idiom: sort
      a(i) = old
  230 continue
      end
