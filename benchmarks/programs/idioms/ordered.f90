! Reductions, scans, recurrences and sorts.
module ordered
   implicit none
   integer, parameter :: wp = kind(1.0d0)
contains

   subroutine reductions(n, a, b, total, largest, first, number, every)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n), b(n)
      real(wp), intent(out) :: total, largest, first
      integer, intent(out) :: number
      logical, intent(out) :: every
      integer :: i
      total = 0.0_wp
      do i = 1, n                                  ! loop: reduction
         total = total + a(i) * b(i)               ! idiom: reduction
      end do
      largest = a(1)
      do i = 2, n                                  ! loop: reduction
         largest = max(largest, abs(a(i)))         ! idiom: reduction
      end do
      first = a(1)
      do i = 2, n                                  ! loop: reduction
         if (a(i) < first) first = a(i)            ! idiom: reduction
      end do
      number = 0
      do i = 1, n                                  ! loop: reduction
         if (a(i) > b(i)) number = number + 1      ! idiom: reduction
      end do
      every = .true.
      do i = 1, n                                  ! loop: reduction
         every = every .and. a(i) > 0.0_wp         ! idiom: reduction
      end do
   end subroutine reductions

   subroutine intrinsics(n, a, b, total, largest, scaled)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n), b(n)
      real(wp), intent(out) :: total, largest, scaled
      total = sum(a)                               ! idiom: reduction
      largest = maxval(abs(a - b))                 ! idiom: reduction
      scaled = dot_product(a, b)                   ! idiom: reduction
      total = total + sum(a, mask=b > 0.0_wp)      ! idiom: reduction
      largest = max(largest, maxval(a(1:n:2), a(1:n:2) < 1.0_wp)) ! idiom: reduction
      scaled = scaled * product(b(2:n))            ! idiom: reduction
      total = total + count(a > b)                 ! idiom: reduction
   end subroutine intrinsics

   subroutine row_sums(n, a, rows)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n, n)
      real(wp), intent(inout) :: rows(n)
      integer :: i, j
      do i = 1, n                                  ! loop: parallel
         do j = 1, n                               ! loop: reduction
            rows(i) = rows(i) + a(i, j)            ! idiom: reduction
         end do
      end do
      rows = sum(a, dim=2)                         ! idiom: reduction
   end subroutine row_sums

   subroutine no_reductions(n, a, last, s)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n)
      real(wp), intent(out) :: last
      real(wp), intent(inout) :: s
      integer :: i
      last = 0.0_wp
      do i = 1, n
         last = a(i)                               ! idiom: none
      end do
      do i = 1, n                                  ! loop: recurrence
         s = a(i) - s                              ! idiom: recurrence
      end do
      do i = 1, n                                  ! loop: recurrence
         s = 0.5_wp * s + a(i)                     ! idiom: recurrence
      end do
   end subroutine no_reductions

   subroutine scans(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n)
      real(wp), intent(inout) :: a(n)
      real(wp) :: running
      integer :: i
      running = 0.0_wp
      do i = 1, n                                  ! loop: recurrence
         running = running + b(i)                  ! idiom: prefix-scan
         a(i) = running
      end do
      a(1) = b(1)
      do i = 2, n                                  ! loop: recurrence
         a(i) = a(i - 1) + b(i)                    ! idiom: prefix-scan
      end do
      do i = 2, n                                  ! loop: recurrence
         a(i) = a(i) + a(i - 1)                    ! idiom: prefix-scan
      end do
      running = 0.0_wp
      do i = 1, n                                  ! loop: recurrence
         a(i) = running                            ! idiom: prefix-scan
         running = running + b(i)
      end do
      running = b(1)
      do i = 1, n                                  ! loop: recurrence
         running = max(running, b(i))              ! idiom: prefix-scan
         a(i) = running
      end do
   end subroutine scans

   subroutine no_scans(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n)
      real(wp), intent(inout) :: a(n)
      integer :: i
      do i = 1, n - 1                              ! loop: recurrence
         a(i) = a(i + 1) + b(i)                    ! idiom: stream
      end do
      do i = 2, n                                  ! loop: parallel
         a(i) = b(i - 1) + b(i)                    ! idiom: stencil
      end do
   end subroutine no_scans

   subroutine recurrences(n, a, b, c)
      integer, intent(in) :: n
      real(wp), intent(in) :: b(n), c(n)
      real(wp), intent(inout) :: a(n)
      real(wp) :: before
      integer :: i
      do i = 2, n                                  ! loop: recurrence
         a(i) = c(i) * a(i - 1) + b(i)             ! idiom: recurrence
      end do
      do i = n - 1, 1, -1                          ! loop: recurrence
         a(i) = (b(i) - c(i) * a(i + 1)) / 2.0_wp  ! idiom: recurrence
      end do
      before = a(1)
      do i = 2, n                                  ! loop: recurrence
         before = b(i) / (c(i) - before)           ! idiom: recurrence
         a(i) = before                             ! idiom: none
      end do
   end subroutine recurrences

   subroutine far_recurrence(n, a)
      integer, intent(in) :: n
      real(wp), intent(inout) :: a(2 * n)
      integer :: i
      do i = 1, n                                  ! loop: parallel
         a(i) = 2.0_wp * a(i + n)                  ! idiom: stream
      end do
      do i = 5, n                                  ! loop: recurrence
         a(i) = 0.5_wp * a(i - 4)                  ! idiom: recurrence
      end do
   end subroutine far_recurrence

   subroutine bubbles(n, a)
      integer, intent(in) :: n
      real(wp), intent(inout) :: a(n)
      real(wp) :: kept
      integer :: i, j
      do i = n, 2, -1                              ! loop: recurrence
         do j = 1, i - 1                           ! loop: recurrence
            if (a(j) > a(j + 1)) then
               kept = a(j)
               a(j) = a(j + 1)                     ! idiom: sort
               a(j + 1) = kept
            end if
         end do
      end do
   end subroutine bubbles

   subroutine insertion(n, a)
      integer, intent(in) :: n
      integer, intent(inout) :: a(n)
      integer :: i, j, key
      do i = 2, n                                  ! loop: recurrence
         key = a(i)
         j = i - 1
         do while (j >= 1)
            if (a(j) <= key) exit
            a(j + 1) = a(j)                        ! idiom: sort
            j = j - 1
         end do
         a(j + 1) = key                            ! idiom: none
      end do
   end subroutine insertion

   subroutine network(n, a)
      integer, intent(in) :: n
      real(wp), intent(inout) :: a(n)
      real(wp) :: low, high
      integer :: i
      do i = 1, n - 1, 2                           ! loop: parallel
         low = min(a(i), a(i + 1))
         high = max(a(i), a(i + 1))
         a(i) = low                                ! idiom: sort
         a(i + 1) = high
      end do
   end subroutine network

   subroutine reverse(n, a)
      integer, intent(in) :: n
      real(wp), intent(inout) :: a(n)
      real(wp) :: kept
      integer :: i
      do i = 1, n / 2                              ! loop: parallel
         kept = a(i)
         a(i) = a(n + 1 - i)                       ! idiom: none
         a(n + 1 - i) = kept                       ! idiom: none
      end do
   end subroutine reverse

   subroutine fills(n, a, pairs)
      integer, intent(in) :: n
      integer, intent(out) :: a(n), pairs(n)
      integer :: i
      a = 0                                        ! idiom: stream
      a(1:n) = [(i * i, i = 1, n)]                 ! idiom: stream
      pairs = merge(a, -a, a > 3)                  ! idiom: stream
      where (pairs > 4) pairs = pairs - 1          ! idiom: stream
   end subroutine fills

   subroutine through_pointers(n, target_values)
      integer, intent(in) :: n
      real(wp), target, intent(inout) :: target_values(n)
      real(wp), pointer :: odd(:), window(:)
      integer :: i
      odd => target_values(1:n:2)
      do i = 1, size(odd)                          ! loop: parallel
         odd(i) = 2.0_wp * odd(i)                  ! idiom: stream
      end do
      window => target_values(2:n)
      do i = 2, n - 1
         window(i) = window(i - 1) * 0.5_wp        ! idiom: recurrence
      end do
   end subroutine through_pointers

   subroutine chosen(n, kind_of, a, b)
      integer, intent(in) :: n, kind_of(n)
      real(wp), intent(inout) :: a(n)
      real(wp), intent(in) :: b(n)
      integer :: i
      do i = 1, n                                  ! loop: parallel
         select case (kind_of(i))
         case (1)
            a(i) = b(i)                            ! idiom: stream
         case (2:4)
            a(i) = -b(i)                           ! idiom: stream
         case default
            a(i) = 0.0_wp                          ! idiom: stream
         end select
      end do
   end subroutine chosen

   subroutine printed(n, a)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n)
      integer :: i
      do i = 1, n
         print *, a(i)
      end do
      write (*, *) (a(i), i = 1, n)                ! idiom: none
   end subroutine printed

end module ordered
