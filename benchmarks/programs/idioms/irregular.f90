! Index arrays, sparse matrices, tables, chains and compactions.
module irregular
   implicit none
   integer, parameter :: wp = kind(1.0d0)
   real(wp), parameter :: weights(0:3) = [0.1_wp, 0.2_wp, 0.3_wp, 0.4_wp]
   type :: link
      real(wp) :: load
      type(link), pointer :: next => null()
   end type link
   type :: mesh
      integer, allocatable :: corner(:, :)
      real(wp), allocatable :: height(:)
   end type mesh
contains

   subroutine gathers(n, a, b, at)
      integer, intent(in) :: n, at(n)
      real(wp), intent(in) :: b(n)
      real(wp), intent(out) :: a(n)
      integer :: i, place
      do i = 1, n                                  ! loop: parallel
         a(i) = b(at(i))                           ! idiom: gather
      end do
      do i = 1, n                                  ! loop: parallel
         place = at(i)
         a(i) = 3.0_wp * b(place) + 1.0_wp         ! idiom: gather
      end do
      a = b(at)                                    ! idiom: gather
      a(1:n:2) = b(at(1:n:2))                      ! idiom: gather
      do concurrent (i = 1:n)                      ! loop: parallel
         a(i) = b(at(n + 1 - i))                   ! idiom: gather
      end do
   end subroutine gathers

   real(wp) function gathered_total(n, b, at) result(total)
      integer, intent(in) :: n, at(n)
      real(wp), intent(in) :: b(n)
      integer :: i
      total = 0.0_wp
      do i = 1, n                                  ! loop: reduction
         total = total + b(at(i))                  ! idiom: gather (reduction)
      end do
      total = total + sum(b(at))                   ! idiom: gather (reduction)
   end function gathered_total

   subroutine no_gathers(n, a, b, at)
      integer, intent(in) :: n, at(n)
      real(wp), intent(in) :: b(n)
      real(wp), intent(out) :: a(n)
      integer :: i
      do i = 1, n                                  ! loop: parallel
         a(i) = b(at(1))                           ! idiom: none
      end do
      do i = 1, n                                  ! loop: parallel
         a(i) = b(i) + at(i)                       ! idiom: stream
      end do
      do i = 1, n / 2                              ! loop: parallel
         a(i) = b(2 * i)                           ! idiom: none
      end do
   end subroutine no_gathers

   subroutine scatters(n, a, b, at)
      integer, intent(in) :: n, at(n)
      real(wp), intent(in) :: b(n)
      real(wp), intent(inout) :: a(n)
      integer :: i, place
      do i = 1, n                                  ! loop: unknown
         a(at(i)) = b(i)                           ! idiom: scatter
      end do
      do i = 1, n                                  ! loop: unknown
         place = at(i)
         if (place > 0) a(place) = 2.0_wp * b(i)   ! idiom: scatter
      end do
      a(at) = b                                    ! idiom: scatter
      do i = 1, n
         a(at(i)) = b(at(n + 1 - i))               ! idiom: scatter (gather)
      end do
   end subroutine scatters

   subroutine histograms(n, count, key, weight)
      integer, intent(in) :: n, key(n)
      integer, intent(inout) :: count(n)
      real(wp), intent(inout) :: weight(n)
      integer :: i, bin
      do i = 1, n
         count(key(i)) = count(key(i)) + 1         ! idiom: gather-modify-scatter
      end do
      do i = 1, n
         bin = key(i) / 16 + 1
         weight(bin) = weight(bin) + 0.5_wp        ! idiom: gather-modify-scatter
      end do
      do i = 1, n
         weight(key(i)) = max(weight(key(i)), real(i, wp)) ! idiom: gather-modify-scatter
      end do
      do i = 1, n                                  ! loop: parallel
         count(i) = count(i) + key(i)              ! idiom: stream
      end do
   end subroutine histograms

   subroutine assemble(grid, elements, forces)
      type(mesh), intent(in) :: grid
      integer, intent(in) :: elements
      real(wp), intent(inout) :: forces(:)
      integer :: e, c, node
      do e = 1, elements
         do c = 1, 3
            node = grid%corner(c, e)
            forces(node) = forces(node) + grid%height(node) ! idiom: gather-modify-scatter (gather)
         end do
      end do
   end subroutine assemble

   subroutine product_of_rows(n, first, column, value, x, y)
      integer, intent(in) :: n, first(n + 1), column(*)
      real(wp), intent(in) :: value(*), x(n)
      real(wp), intent(inout) :: y(n)
      real(wp) :: total
      integer :: i, k
      do i = 1, n                                  ! loop: parallel
         total = 0.0_wp
         do k = first(i), first(i + 1) - 1         ! loop: reduction
            total = total + value(k) * x(column(k)) ! idiom: sparse-product-csr (gather, reduction)
         end do
         y(i) = total                              ! idiom: none
      end do
      do i = 1, n                                  ! loop: parallel
         do k = first(i), first(i + 1) - 1         ! loop: reduction
            y(i) = y(i) - value(k) * x(column(k))  ! idiom: sparse-product-csr (gather, reduction)
         end do
      end do
      do i = 1, n                                  ! loop: parallel
         y(i) = dot_product(value(first(i):first(i + 1) - 1), x(column(first(i):first(i + 1) - 1))) ! idiom: sparse-product-csr (gather, reduction)
      end do
   end subroutine product_of_rows

   subroutine columns(n, first, row, value, x, y)
      integer, intent(in) :: n, first(n + 1), row(*)
      real(wp), intent(in) :: value(*), x(n)
      real(wp), intent(inout) :: y(n)
      integer :: j, k
      do j = 1, n
         do k = first(j), first(j + 1) - 1
            y(row(k)) = y(row(k)) + value(k) * x(j) ! idiom: sparse-product-csr (scatter)
         end do
      end do
   end subroutine columns

   subroutine coordinates(entries, row, column, value, x, y)
      integer, intent(in) :: entries, row(entries), column(entries)
      real(wp), intent(in) :: value(entries), x(*)
      real(wp), intent(inout) :: y(*)
      integer :: k
      do k = 1, entries
         y(row(k)) = y(row(k)) + value(k) * x(column(k)) ! idiom: sparse-product-coo (gather, gather-modify-scatter)
      end do
      do k = 1, entries
         y(row(k)) = y(row(k)) + value(k) * x(k)   ! idiom: gather-modify-scatter
      end do
   end subroutine coordinates

   subroutine padded(n, width, column, value, x, y)
      integer, intent(in) :: n, width, column(n, width)
      real(wp), intent(in) :: value(n, width), x(n)
      real(wp), intent(inout) :: y(n)
      real(wp) :: total
      integer :: i, k
      do k = 1, width                              ! loop: reduction
         do i = 1, n                               ! loop: parallel
            y(i) = y(i) + value(i, k) * x(column(i, k)) ! idiom: sparse-product-ell (gather)
         end do
      end do
      do i = 1, n                                  ! loop: parallel
         total = 0.0_wp
         do k = 1, width                           ! loop: reduction
            total = total + value(i, k) * x(column(i, k)) ! idiom: sparse-product-ell (gather, reduction)
         end do
         y(i) = total                              ! idiom: none
      end do
   end subroutine padded

   subroutine rows_without_indices(n, first, value, y)
      integer, intent(in) :: n, first(n + 1)
      real(wp), intent(in) :: value(*)
      real(wp), intent(inout) :: y(n)
      integer :: i, k
      do i = 1, n                                  ! loop: parallel
         do k = first(i), first(i + 1) - 1         ! loop: reduction
            y(i) = y(i) + value(k)                 ! idiom: reduction
         end do
      end do
   end subroutine rows_without_indices

   subroutine follow(head, total)
      type(link), pointer, intent(in) :: head
      real(wp), intent(out) :: total
      type(link), pointer :: node
      total = 0.0_wp
      node => head
      do while (associated(node))                  ! loop: recurrence
         total = total + node%load                 ! idiom: reduction
         node => node%next                         ! idiom: pointer-chase
      end do
   end subroutine follow

   integer function depth_of(start, parent) result(depth)
      integer, intent(in) :: start, parent(:)
      integer :: node
      node = start
      depth = 0
      do while (node /= parent(node))              ! loop: recurrence
         node = parent(node)                       ! idiom: pointer-chase
         depth = depth + 1                         ! idiom: none
      end do
   end function depth_of

   subroutine chain_in_array(n, next, head, value, total)
      integer, intent(in) :: n, next(n), head
      real(wp), intent(in) :: value(n)
      real(wp), intent(out) :: total
      integer :: at
      total = 0.0_wp
      at = head
      do                                           ! loop: recurrence
         if (at == 0) exit
         total = total + value(at)                 ! idiom: reduction
         at = next(at)                             ! idiom: pointer-chase
      end do
   end subroutine chain_in_array

   subroutine lookups(n, a, key)
      integer, intent(in) :: n, key(n)
      real(wp), intent(out) :: a(n)
      integer :: i
      do i = 1, n                                  ! loop: parallel
         a(i) = weights(iand(key(i), 3))           ! idiom: table-lookup
      end do
      do i = 1, n                                  ! loop: parallel
         a(i) = weights(mod(i, 4))                 ! idiom: none
      end do
   end subroutine lookups

   subroutine masked_lookup(n, a, table, key)
      integer, intent(in) :: n, key(n), table(0:255)
      integer, intent(out) :: a(n)
      integer :: i, slot
      do i = 1, n                                  ! loop: parallel
         slot = iand(ishft(key(i), -8), 255)
         a(i) = ieor(table(slot), key(i))          ! idiom: table-lookup
      end do
   end subroutine masked_lookup

   integer function keep_positive(n, a, b) result(kept)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n)
      real(wp), intent(out) :: b(n)
      integer :: i
      kept = 0
      do i = 1, n                                  ! loop: recurrence
         if (a(i) > 0.0_wp) then
            kept = kept + 1
            b(kept) = a(i)                         ! idiom: compaction
         end if
      end do
      b = pack(a, a > 0.0_wp)                      ! idiom: compaction
   end function keep_positive

   integer function positions(n, a, at) result(kept)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n)
      integer, intent(out) :: at(n)
      integer :: i, free
      free = 1
      do i = 1, n                                  ! loop: recurrence
         if (.not. a(i) > 0.0_wp) cycle
         at(free) = i                              ! idiom: compaction
         free = free + 1
      end do
      kept = free - 1
   end function positions

   subroutine no_compaction(n, a, b)
      integer, intent(in) :: n
      real(wp), intent(in) :: a(n)
      real(wp), intent(out) :: b(n)
      integer :: i, k
      k = 0
      do i = 1, n                                  ! loop: parallel
         k = k + 1
         b(k) = a(i)                               ! idiom: stream
      end do
      do i = 1, n                                  ! loop: parallel
         if (a(i) > 0.0_wp) b(i) = a(i)            ! idiom: stream
      end do
   end subroutine no_compaction

end module irregular
