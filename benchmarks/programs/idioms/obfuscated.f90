! The same idioms in other clothes: continuation, names, pointers, blocks, intrinsics.
module tables
   implicit none
   integer, parameter :: dp = selected_real_kind(15)
   real(dp), parameter :: powers(8) = [1, 2, 4, 8, 16, 32, 64, 128]
   integer :: permutation(256)
   real(dp), allocatable :: state(:, :)
contains
   pure elemental real(dp) function square(x)
      real(dp), intent(in) :: x
      square = x * x
   end function square
end module tables

module obfuscated
   use tables
   implicit none
   type :: point
      real(dp) :: x(3), v(3)
      integer :: home
   end type point
   type :: swarm
      type(point), allocatable :: members(:)
      integer, allocatable :: order(:)
      real(dp), pointer :: mass(:) => null()
   contains
      procedure :: drift
   end type swarm
contains

   subroutine drift(this, dt)
      class(swarm), intent(inout) :: this
      real(dp), intent(in) :: dt
      integer :: i
      do i = 1, size(this%members)                 ! loop: parallel
         this%members(i)%x(1) = this%members(i)%x(1) + dt * this%members(i)%v(1) ! idiom: stream
         this%members(i)%x(2:3) = this%members(i)%x(2:3) + dt * this%members(i)%v(2:3) ! idiom: stream
      end do
   end subroutine drift

   subroutine shuffled(this, out)
      class(swarm), intent(in) :: this
      real(dp), intent(out) :: out(:)
      integer :: i
      associate (order => this%order, m => this%members)
         do i = 1, size(order)                     ! loop: parallel
            out(i) = m(order(i))%x(1)              ! idiom: gather
         end do
      end associate
   end subroutine shuffled

   subroutine deposit(this, cells)
      type(swarm), intent(in) :: this
      real(dp), intent(inout) :: cells(:)
      integer :: i
      do i = 1, size(this%members)                 ! loop: reduction
         associate (cell => cells(this%members(i)%home))
            cell = cell + this%mass(i)             ! idiom: gather-modify-scatter
         end associate
      end do
   end subroutine deposit

   subroutine through_elemental(n, a, b)
      integer, intent(in) :: n
      real(dp), intent(in) :: b(n)
      real(dp), intent(out) :: a(n)
      integer :: i
      do i = 1, n; a(i) = square(b(i)); end do     ! loop: parallel, idiom: stream
      a = square(b) + 1                            ! idiom: stream
   end subroutine through_elemental

   subroutine continued(n, a, b, c)
      integer, intent(in) :: n
      real(dp), intent(in) :: b(0:n), c(n)
      real(dp), intent(inout) :: a(n)
      integer :: i
      rows: do i = 1, n                            ! loop: parallel
         if (c(i) == 0) &
            cycle rows
         a(i) = b(i) & ! idiom: stencil
            &   - b(i - 1)
      end do rows
   end subroutine continued

   subroutine moved_bounds(n, a, b)
      integer, intent(in) :: n
      real(dp), target, intent(in) :: b(n)
      real(dp), intent(inout) :: a(-n:n)
      real(dp), pointer :: p(:)
      integer :: i
      p => b(2:)
      do i = 1, n - 1                              ! loop: parallel
         a(i - n) = p(i)                           ! idiom: stream
      end do
   end subroutine moved_bounds

   subroutine one_dimension(n, m, u, w)
      integer, intent(in) :: n, m
      real(dp), intent(in) :: u(n * m)
      real(dp), intent(inout) :: w(n * m)
      integer :: i, j, k
      do j = 2, m - 1                              ! loop: parallel
         do i = 2, n - 1                           ! loop: parallel
            k = i + (j - 1) * n
            w(k) = u(k - 1) + u(k + 1) + u(k - n) + u(k + n) - 4 * u(k) ! idiom: stencil
         end do
      end do
   end subroutine one_dimension

   subroutine chosen_product(n, a, b, c, turned)
      integer, intent(in) :: n
      real(dp), intent(in) :: a(n, n), b(n, n)
      real(dp), intent(inout) :: c(n, n)
      logical, intent(in) :: turned
      integer :: i, k, l
      if (turned) then
         c = matmul(transpose(a), b)               ! idiom: matrix-product (reduction)
      else
         do concurrent (k = 1:n, l = 1:n)          ! loop: parallel
            c(k, l) = 0                            ! idiom: stream
            do i = 1, n                            ! loop: reduction
               c(k, l) = c(k, l) + a(i, k) * b(l, i) ! idiom: matrix-product (reduction)
            end do
         end do
      end if
   end subroutine chosen_product

   subroutine by_columns(n, a, x, y)
      integer, intent(in) :: n
      real(dp), intent(in) :: a(:, :), x(:)
      real(dp), intent(inout) :: y(:)
      integer :: j
      real(dp) :: xj
      j = 0
      do                                           ! loop: unjudged
         j = j + 1
         if (j > n) exit
         xj = x(j)
         y(:) = y(:) + xj * a(:, j)                ! idiom: matrix-vector-product
      end do
   end subroutine by_columns

   integer function located(a) result(where_)
      real(dp), intent(in) :: a(:)
      real(dp) :: best
      integer :: i
      where_ = maxloc(a, dim=1)                    ! idiom: reduction
      best = -huge(best)
      do i = 1, size(a)                            ! loop: reduction
         if (a(i) > best) then
            best = a(i)                            ! idiom: reduction
            where_ = i                             ! idiom: none
         end if
      end do
   end function located

   logical function any_negative(a)
      real(dp), intent(in) :: a(:)
      integer :: i
      any_negative = .false.
      do i = 1, size(a)                            ! loop: reduction
         any_negative = any_negative .or. a(i) < 0 ! idiom: reduction
      end do
      any_negative = any_negative .or. any(a < -1) ! idiom: reduction
   end function any_negative

   real(dp) function means(a) result(mean)
      real(dp), intent(in) :: a(:, :)
      mean = sum(a) / size(a)                      ! idiom: reduction
   end function means

   real(dp) function norm(a)
      real(dp), intent(in) :: a(:)
      norm = sqrt(dot_product(a, a))               ! idiom: reduction
   end function norm

   subroutine packed_rows(n, keep, a, b, m)
      integer, intent(in) :: n
      logical, intent(in) :: keep(n)
      real(dp), intent(in) :: a(n, n)
      real(dp), intent(out) :: b(n, n)
      integer, intent(out) :: m
      integer :: i
      m = 0
      do i = 1, n                                  ! loop: recurrence
         if (.not. keep(i)) cycle
         m = m + 1
         b(m, 1) = a(i, 1)                         ! idiom: compaction
      end do
   end subroutine packed_rows

   subroutine inverse_permutation(n)
      integer, intent(in) :: n
      integer :: i, inverse(256)
      do i = 1, n                                  ! loop: unknown
         inverse(permutation(i)) = i               ! idiom: scatter
      end do
      permutation = inverse                        ! idiom: stream
   end subroutine inverse_permutation

   subroutine weighted(n, a, code)
      integer, intent(in) :: n, code(n)
      real(dp), intent(inout) :: a(n)
      integer :: i
      do i = n, 1, -1                              ! loop: parallel
         a(i) = a(i) * powers(1 + iand(code(i), 7)) ! idiom: table-lookup
      end do
   end subroutine weighted

   subroutine tridiagonal(n, below, diagonal, above, x)
      integer, intent(in) :: n
      real(dp), intent(in) :: below(n), above(n)
      real(dp), intent(inout) :: diagonal(n), x(n)
      real(dp) :: w
      integer :: i
      do i = 2, n                                  ! loop: recurrence
         w = below(i) / diagonal(i - 1)
         diagonal(i) = diagonal(i) - w * above(i - 1) ! idiom: recurrence
         x(i) = x(i) - w * x(i - 1)                ! idiom: recurrence
      end do
      x(n) = x(n) / diagonal(n)
      do i = n - 1, 1, -1                          ! loop: recurrence
         x(i) = (x(i) - above(i) * x(i + 1)) / diagonal(i) ! idiom: recurrence
      end do
   end subroutine tridiagonal

   subroutine cumulative(n, counts, offsets)
      integer, intent(in) :: n, counts(n)
      integer, intent(out) :: offsets(n + 1)
      integer :: i
      offsets(1) = 1
      do i = 1, n                                  ! loop: recurrence
         offsets(i + 1) = offsets(i) + counts(i)   ! idiom: prefix-scan
      end do
   end subroutine cumulative

   subroutine selection(n, a)
      integer, intent(in) :: n
      real(dp), intent(inout) :: a(n)
      real(dp) :: t
      integer :: i, j
      do i = 1, n - 1                              ! loop: recurrence
         do j = i + 1, n                           ! loop: recurrence
            if (a(j) < a(i)) then
               t = a(i); a(i) = a(j); a(j) = t     ! idiom: sort
            end if
         end do
      end do
   end subroutine selection

   subroutine transforms(n, re, im, c, s)
      integer, intent(in) :: n
      real(dp), intent(inout) :: re(0:n - 1), im(0:n - 1)
      real(dp), intent(in) :: c(0:n / 2 - 1), s(0:n / 2 - 1)
      real(dp) :: tr, ti
      integer :: k, h
      h = n / 2
      do k = 0, h - 1                              ! loop: parallel
         tr = c(k) * re(k + h) - s(k) * im(k + h)
         ti = c(k) * im(k + h) + s(k) * re(k + h)
         re(k + h) = re(k) - tr                    ! idiom: fft-butterfly
         re(k) = re(k) + tr
         im(k + h) = im(k) - ti                    ! idiom: fft-butterfly
         im(k) = im(k) + ti
      end do
   end subroutine transforms

   subroutine module_state(n, m)
      integer, intent(in) :: n, m
      integer :: i, j
      allocate (state(n, m))
      state = 0                                    ! idiom: stream
      do j = 2, m                                  ! loop: recurrence
         do i = 1, n                               ! loop: parallel
            state(i, j) = 0.5_dp * state(i, j - 1) ! idiom: recurrence
         end do
      end do
      do i = 1, n                                  ! loop: parallel
         if (state(i, 1) > 1) then
            keep: block
               real(dp) :: kept
               kept = state(i, 1)
               state(i, 2) = kept                  ! idiom: stream
            end block keep
         end if
      end do
   end subroutine module_state

   subroutine element_matrices(elements, corner, k, x, y)
      integer, intent(in) :: elements, corner(4, elements)
      real(dp), intent(in) :: k(4, elements), x(:)
      real(dp), intent(inout) :: y(:)
      integer :: e, i
      do e = 1, elements                           ! loop: reduction
         do i = 1, 4                               ! loop: reduction
            y(corner(i, e)) = y(corner(i, e)) + k(i, e) * x(corner(i, e)) ! idiom: gather-modify-scatter (gather)
         end do
      end do
   end subroutine element_matrices

   subroutine longest(next, length)
      integer, intent(in) :: next(0:)
      integer, intent(out) :: length
      integer :: slow, fast
      length = 0
      slow = 0
      fast = next(0)
      do while (slow /= fast)                      ! loop: recurrence
         slow = next(slow)                         ! idiom: pointer-chase
         fast = next(next(fast))                   ! idiom: pointer-chase
         length = length + 1
      end do
   end subroutine longest

end module obfuscated
