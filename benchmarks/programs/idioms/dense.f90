! Dense loops: streams, transposes, stencils, matrix products, and what looks like them.
module dense
   implicit none
   integer, parameter :: wp = kind(1.0d0)
   type :: cell
      real(wp) :: density, energy
      real(wp) :: flux(3)
   end type cell
contains

   subroutine triad(n, a, b, c, q)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n), c(n), q
      real(wp), intent(out) :: a(n)
      integer :: i
      do i = 1, n                                  ! loop: parallel
         a(i) = b(i) + q * c(i)                    ! idiom: stream
      end do
   end subroutine triad

   subroutine copy_through_scalar(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n)
      real(wp), intent(out) :: a(n)
      real(wp) :: item
      integer :: i
      do i = 1, n, 2                               ! loop: parallel
         item = b(i)
         a(i) = item                               ! idiom: stream
      end do
   end subroutine copy_through_scalar

   subroutine countdown(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n)
      real(wp), intent(inout) :: a(n)
      integer :: i
      i = n
      do while (i >= 1)                            ! loop: parallel
         a(i) = a(i) + b(i)                        ! idiom: stream
         i = i - 1
      end do
   end subroutine countdown

   subroutine same_place(n, a, b, c)
      integer, intent(in) :: n, c
      real(wp), intent(in) :: b(n)
      real(wp), intent(inout) :: a(n)
      integer :: i
      a(c) = b(c)                                  ! idiom: none
      do i = 1, n
         a(c) = b(c)                               ! idiom: none
      end do
   end subroutine same_place

   subroutine members(n, cells)
      integer, intent(in) :: n
      type(cell), intent(inout) :: cells(n)
      integer :: i, d
      do i = 1, n                                  ! loop: parallel
         cells(i)%energy = 0.5_wp * cells(i)%density     ! idiom: stream
         do d = 1, 3                               ! loop: parallel
            cells(i)%flux(d) = cells(i)%flux(d) * 2.0_wp ! idiom: stream
         end do
      end do
   end subroutine members

   subroutine swap_rows_and_columns(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n, n)
      real(wp), intent(out) :: a(n, n)
      integer :: i, j
      do j = 1, n                                  ! loop: parallel
         do i = 1, n                               ! loop: parallel
            a(i, j) = b(j, i)                      ! idiom: transpose
         end do
      end do
      a = transpose(b)                             ! idiom: transpose
      do concurrent (i = 1:n, j = 1:n)             ! loop: parallel
         a(i, j) = 2.0_wp * b(j, i)                ! idiom: transpose
      end do
      do i = 1, n                                  ! loop: parallel
         a(i, :) = b(:, i)                         ! idiom: transpose
      end do
   end subroutine swap_rows_and_columns

   subroutine no_transpose(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n, n)
      real(wp), intent(out) :: a(n, n)
      integer :: i, j
      do i = 1, n                                  ! loop: parallel
         do j = 1, n                               ! loop: parallel
            a(i, j) = b(i, j)                      ! idiom: stream
         end do
      end do
      do i = 1, n                                  ! loop: parallel
         a(i, i) = b(i, i)                         ! idiom: stream
      end do
   end subroutine no_transpose

   subroutine swap_in_place(n, a)
      integer, intent(in) :: n
      real(wp), intent(inout) :: a(n, n)
      real(wp) :: kept
      integer :: i, j
      do j = 2, n                                  ! loop: parallel
         do i = 1, j - 1                           ! loop: parallel
            kept = a(i, j)
            a(i, j) = a(j, i)                      ! idiom: transpose
            a(j, i) = kept                         ! idiom: transpose
         end do
      end do
   end subroutine swap_in_place

   subroutine three_points(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n)
      real(wp), intent(inout) :: a(n)
      integer :: i
      do i = 2, n - 1                              ! loop: parallel
         a(i) = 0.5_wp * (b(i - 1) + b(i + 1))     ! idiom: stencil
      end do
      a(2:n - 1) = b(1:n - 2) - 2 * b(2:n - 1) + b(3:n)  ! idiom: stencil
      do i = 2, n - 1                              ! loop: parallel
         a(i) = b(i + 1)                           ! idiom: stream
      end do
   end subroutine three_points

   subroutine five_points(n, m, u, v)
      integer, intent(in) :: n, m
      real(wp), intent(in) :: u(0:n + 1, 0:m + 1)
      real(wp), intent(out) :: v(0:n + 1, 0:m + 1)
      real(wp) :: west, east, rest
      integer :: i, j
      do j = 1, m                                  ! loop: parallel
         do i = 1, n                               ! loop: parallel
            west = u(i - 1, j)
            east = u(i + 1, j)
            rest = u(i, j - 1) + u(i, j + 1)
            v(i, j) = 0.25_wp * (west + east + rest)    ! idiom: stencil
         end do
      end do
   end subroutine five_points

   subroutine seidel(n, u)
      integer, intent(in) :: n
      real(wp), intent(inout) :: u(n, n)
      integer :: i, j
      do j = 2, n - 1                              ! loop: recurrence
         do i = 2, n - 1                           ! loop: recurrence
            u(i, j) = 0.25_wp * (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1)) ! idiom: stencil (recurrence)
         end do
      end do
   end subroutine seidel

   subroutine masked_stencil(n, wet, u, v)
      integer, intent(in) :: n
      logical, intent(in) :: wet(n)
      real(wp), intent(in) :: u(n)
      real(wp), intent(inout) :: v(n)
      integer :: i
      forall (i = 2:n - 1, wet(i)) v(i) = u(i + 1) - u(i - 1) ! idiom: stencil
      where (wet(2:n - 1))
         v(2:n - 1) = max(u(1:n - 2), u(3:n))      ! idiom: stencil
      elsewhere
         v(2:n - 1) = 0.0_wp                       ! idiom: stream
      end where
   end subroutine masked_stencil

   subroutine product_of_matrices(n, a, b, c)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n, n), b(n, n)
      real(wp), intent(inout) :: c(n, n)
      real(wp) :: total, factor
      integer :: i, j, k
      do j = 1, n                                  ! loop: parallel
         do k = 1, n                               ! loop: reduction
            factor = b(k, j)
            do i = 1, n                            ! loop: parallel
               c(i, j) = c(i, j) + a(i, k) * factor ! idiom: matrix-product
            end do
         end do
      end do
      do j = 1, n                                  ! loop: parallel
         do i = 1, n                               ! loop: parallel
            total = 0.0_wp
            do k = 1, n                            ! loop: reduction
               total = total + a(k, i) * b(k, j)   ! idiom: matrix-product (reduction)
            end do
            c(i, j) = total                        ! idiom: none
         end do
      end do
      c = matmul(a, b)                             ! idiom: matrix-product (reduction)
      do j = 1, n                                  ! loop: parallel
         do i = 1, n                               ! loop: parallel
            c(i, j) = dot_product(a(i, :), b(:, j)) ! idiom: matrix-product (reduction)
         end do
      end do
   end subroutine product_of_matrices

   subroutine elementwise_product(n, a, b, c)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n, n), b(n, n)
      real(wp), intent(inout) :: c(n, n)
      c = a * b                                    ! idiom: stream
      c(:, :) = c + a * b                          ! idiom: stream
   end subroutine elementwise_product

   subroutine matrix_times_vector(n, m, a, x, y)
      integer, intent(in) :: n, m
      real(wp), intent(in) :: a(n, m), x(m)
      real(wp), intent(inout) :: y(n)
      real(wp) :: total
      integer :: i, j
      do j = 1, m                                  ! loop: reduction
         do i = 1, n                               ! loop: parallel
            y(i) = y(i) + a(i, j) * x(j)           ! idiom: matrix-vector-product
         end do
      end do
      do i = 1, n                                  ! loop: parallel
         total = 0.0_wp
         do j = 1, m                               ! loop: reduction
            total = total + a(i, j) * x(j)         ! idiom: matrix-vector-product (reduction)
         end do
         y(i) = total                              ! idiom: none
      end do
      y = matmul(a, x)                             ! idiom: matrix-vector-product (reduction)
      do j = 1, m                                  ! loop: reduction
         y = y - a(:, j) * x(j)                    ! idiom: matrix-vector-product
      end do
      do i = 1, n                                  ! loop: parallel
         y(i) = sum(a(i, :) * x)                   ! idiom: matrix-vector-product (reduction)
      end do
   end subroutine matrix_times_vector

   subroutine outer_product(n, a, x, y)
      integer, intent(in) :: n
      real(wp), intent(inout) :: a(n, n)
      real(wp), intent(in) :: x(n), y(n)
      integer :: i, j
      do j = 1, n                                  ! loop: parallel
         do i = 1, n                               ! loop: parallel
            a(i, j) = a(i, j) + x(i) * y(j)        ! idiom: stream
         end do
      end do
   end subroutine outer_product

   subroutine butterflies(half, re)
      integer, intent(in) :: half
      real(wp), intent(inout) :: re(2 * half)
      real(wp) :: upper, lower
      integer :: k
      do k = 1, half                               ! loop: parallel
         upper = re(k)
         lower = re(k + half)
         re(k) = upper + lower                     ! idiom: fft-butterfly
         re(k + half) = upper - lower
      end do
   end subroutine butterflies

   subroutine complex_stage(n, span, z, twiddle)
      integer, intent(in) :: n, span
      complex(wp), intent(inout) :: z(0:n - 1)
      complex(wp), intent(in) :: twiddle(0:span - 1)
      complex(wp) :: turned
      integer :: base, k
      do base = 0, n - 1, 2 * span
         do k = 0, span - 1
            turned = twiddle(k) * z(base + k + span)
            z(base + k + span) = z(base + k) - turned
            z(base + k) = z(base + k) + turned     ! idiom: fft-butterfly
         end do
      end do
   end subroutine complex_stage

   subroutine sum_and_sum(half, a)
      integer, intent(in) :: half
      real(wp), intent(inout) :: a(2 * half)
      integer :: k
      do k = 1, half                               ! loop: parallel
         a(k) = a(k) + 1.0_wp                      ! idiom: stream
         a(k + half) = a(k + half) - 1.0_wp        ! idiom: stream
      end do
   end subroutine sum_and_sum

end module dense

! Neighbours along the outer loop: the innermost loop streams, the nest is a stencil.
subroutine across(n, m, a, b, c)
  integer, intent(in) :: n, m
  real, intent(inout) :: a(n, m), b(n, m), c(n, m)
  integer :: i, j
  do j = 2, m - 1                                           ! loop: parallel
    do i = 1, n                                             ! loop: parallel
      a(i, j) = 0.5 * (b(i, j - 1) + b(i, j + 1))           ! idiom: stencil
    end do
  end do
  do j = 2, m                                               ! loop: parallel
    do i = 1, n                                             ! loop: parallel
      c(i, j) = c(i, j) + b(i, j - 1)                       ! idiom: stream
    end do
  end do
  do j = 2, m                                               ! loop: recurrence
    do i = 1, n                                             ! loop: parallel
      c(i, j) = 0.5 * c(i, j - 1) + a(i, j)                 ! idiom: recurrence
    end do
  end do
end subroutine

! Arrays with other dimensions than the one that is written.
subroutine components(n, m, flux, u, row)
  integer, intent(in) :: n, m
  real, intent(inout) :: flux(5, n, m)
  real, intent(in) :: u(n, m), row(5, n)
  integer :: i, j
  do j = 2, m - 1                                           ! loop: parallel
    do i = 2, n - 1                                         ! loop: parallel
      flux(1, i, j) = row(2, i + 1) - row(2, i - 1)         ! idiom: stencil
      flux(2, i, j) = u(i, j + 1) - u(i - 1, j)             ! idiom: stencil
      flux(3, i, j) = row(2, i + 1) - row(3, i + 1)         ! idiom: stream
    end do
  end do
end subroutine
