! Labelled after the recogniser was finished: ocean, chemistry, particles, images, graphs.
module ocean
   use, intrinsic :: iso_fortran_env, only: real64, int32
   implicit none
   private
   integer, parameter, public :: nx = 180, ny = 90, nz = 31
   real(real64), parameter :: g0 = 9.81d0
   real(real64), dimension(0:4), parameter :: poly = [999.8d0, 6.8d-2, -9.1d-3, 1.0d-4, -1.1d-6]
   type, public :: state_t
      real(real64), dimension(:, :, :), allocatable :: t, s, rho
      real(real64), dimension(:, :), allocatable :: eta, depth
      integer, dimension(:, :), allocatable :: kmt
   end type state_t
   public :: advance, pressure, density, convect, global_mean, restrict_grid, mixed_layer
contains

   subroutine advance(old, new, u, v, dt, dx)
      type(state_t), intent(in) :: old
      type(state_t), intent(inout) :: new
      real(real64), intent(in) :: u(0:nx, ny, nz), v(nx, 0:ny, nz), dt, dx
      integer :: i, j, k
      !$omp parallel do private(i, j)
      do k = 1, nz                                    ! loop: parallel
         do j = 2, ny - 1                             ! loop: parallel
            do i = 2, nx - 1                          ! loop: parallel
               if (k > old%kmt(i, j)) cycle
               new%t(i, j, k) = old%t(i, j, k) - dt / dx * ( &
                  u(i, j, k) * (old%t(i + 1, j, k) + old%t(i, j, k)) & ! idiom: stencil
                  - u(i - 1, j, k) * (old%t(i, j, k) + old%t(i - 1, j, k)) &
                  + v(i, j, k) * (old%t(i, j + 1, k) - old%t(i, j - 1, k)))
            end do
         end do
      end do
      new%s = old%s                                   ! idiom: stream
      new%eta(:, 2:ny - 1) = old%eta(:, 1:ny - 2) + old%eta(:, 3:ny)  ! idiom: stencil
   end subroutine advance

   subroutine density(st)
      type(state_t), intent(inout) :: st
      integer :: i, j, k
      do concurrent (k = 1:nz, j = 1:ny, i = 1:nx)    ! loop: parallel
         st%rho(i, j, k) = poly(0) + st%t(i, j, k) * (poly(1) + st%t(i, j, k) * poly(2)) + 0.8d0 * st%s(i, j, k) ! idiom: stream
      end do
   end subroutine density

   subroutine pressure(rho, dz, p)
      real(real64), intent(in) :: rho(nx, ny, nz), dz(nz)
      real(real64), intent(out) :: p(nx, ny, nz)
      integer :: k
      p(:, :, 1) = 0.5d0 * g0 * dz(1) * rho(:, :, 1)  ! idiom: stream
      do k = 2, nz                                    ! loop: recurrence
         p(:, :, k) = p(:, :, k - 1) + g0 * dz(k) * rho(:, :, k) ! idiom: prefix-scan
      end do
   end subroutine pressure

   subroutine convect(t, changed)
      real(real64), intent(inout) :: t(nz)
      logical, intent(out) :: changed
      real(real64) :: keep
      integer :: k
      changed = .false.
      do k = 1, nz - 1                                ! loop: recurrence
         if (t(k) < t(k + 1)) then
            keep = t(k)
            t(k) = t(k + 1)                           ! idiom: sort
            t(k + 1) = keep
            changed = .true.
         end if
      end do
   end subroutine convect

   function global_mean(field, area, wet) result(mean)
      real(real64), intent(in) :: field(:, :), area(:, :)
      logical, intent(in) :: wet(:, :)
      real(real64) :: mean, weight
      integer :: i, j
      mean = 0
      weight = 0
      do j = lbound(field, 2), ubound(field, 2)       ! loop: reduction
         do i = lbound(field, 1), ubound(field, 1)    ! loop: reduction
            if (.not. wet(i, j)) cycle
            mean = mean + field(i, j) * area(i, j)    ! idiom: reduction
            weight = weight + area(i, j)              ! idiom: reduction
         end do
      end do
      mean = mean / max(weight, tiny(weight))
      mean = mean - sum(field * area, mask=wet) / sum(area, mask=wet) ! idiom: reduction
   end function global_mean

   subroutine restrict_grid(fine, coarse)
      real(real64), intent(in) :: fine(2 * nx, 2 * ny)
      real(real64), intent(out) :: coarse(nx, ny)
      integer :: i, j
      do j = 1, ny                                    ! loop: parallel
         do i = 1, nx                                 ! loop: parallel
            coarse(i, j) = 0.25d0 * (fine(2 * i - 1, 2 * j - 1) + fine(2 * i, 2 * j - 1) &
               + fine(2 * i - 1, 2 * j) + fine(2 * i, 2 * j)) ! idiom: none
         end do
      end do
   end subroutine restrict_grid

   integer function mixed_layer(rho, jump)
      real(real64), intent(in) :: rho(:), jump
      do mixed_layer = 2, size(rho)                   ! loop: unjudged
         if (rho(mixed_layer) - rho(1) > jump) return
      end do
   end function mixed_layer
end module ocean

module chemistry
   implicit none
   integer, parameter :: dp = kind(0.d0)
   type :: shell
      integer :: l = 0, first = 1
      real(dp), allocatable :: exponent(:), coefficient(:)
   end type shell
   type :: molecule
      integer :: atoms = 0
      real(dp), allocatable :: xyz(:, :), charge(:)
      type(shell), allocatable :: shells(:)
   end type molecule
contains

   pure function repulsion(mol) result(energy)
      type(molecule), intent(in) :: mol
      real(dp) :: energy
      integer :: a, b
      energy = 0.0_dp
      do a = 1, mol%atoms                             ! loop: reduction
         do b = 1, a - 1                              ! loop: reduction
            energy = energy + mol%charge(a) * mol%charge(b) / norm2(mol%xyz(:, a) - mol%xyz(:, b)) ! idiom: reduction
         end do
      end do
   end function repulsion

   subroutine normalise(mol)
      type(molecule), intent(inout) :: mol
      integer :: i
      do i = 1, size(mol%shells)                      ! loop: parallel
         mol%shells(i)%coefficient(:) = mol%shells(i)%coefficient(:) * mol%shells(i)%exponent(:)**0.75_dp ! idiom: stream
      end do
   end subroutine normalise

   subroutine density_matrix(nbf, nocc, c, d)
      integer, intent(in) :: nbf, nocc
      real(dp), intent(in) :: c(nbf, nbf)
      real(dp), intent(out) :: d(nbf, nbf)
      integer :: mu, nu, i
      d = 0                                           ! idiom: stream
      do mu = 1, nbf                                  ! loop: parallel
         do nu = 1, nbf                               ! loop: parallel
            do i = 1, nocc                            ! loop: reduction
               d(mu, nu) = d(mu, nu) + 2 * c(mu, i) * c(nu, i) ! idiom: matrix-product (reduction)
            end do
         end do
      end do
   end subroutine density_matrix

   subroutine rotate_orbitals(n, p, q, c, s, mos)
      integer, intent(in) :: n, p, q
      real(dp), intent(in) :: c, s
      real(dp), intent(inout) :: mos(n, n)
      real(dp) :: hold
      integer :: k
      do k = 1, n                                     ! loop: parallel
         hold = c * mos(k, p) + s * mos(k, q)
         mos(k, q) = -s * mos(k, p) + c * mos(k, q)   ! idiom: stream
         mos(k, p) = hold                             ! idiom: stream
      end do
   end subroutine rotate_orbitals

   subroutine symmetrise(n, a)
      integer, intent(in) :: n
      real(dp), intent(inout) :: a(n, n)
      a = 0.5_dp * (a + transpose(a))                 ! idiom: transpose
   end subroutine symmetrise

   subroutine boys(m, x, f)
      integer, intent(in) :: m
      real(dp), intent(in) :: x
      real(dp), intent(inout) :: f(0:m)
      integer :: i
      do i = m - 1, 0, -1                             ! loop: recurrence
         f(i) = (2 * x * f(i + 1) + exp(-x)) / (2 * i + 1) ! idiom: recurrence
      end do
   end subroutine boys

   subroutine fock_build(n, pairs, row, col, g, d, f)
      integer, intent(in) :: n, pairs, row(pairs), col(pairs)
      real(dp), intent(in) :: g(pairs), d(n)
      real(dp), intent(inout) :: f(n)
      integer :: ij
      do ij = 1, pairs                                ! loop: reduction
         f(row(ij)) = f(row(ij)) + g(ij) * d(col(ij)) ! idiom: sparse-product-coo (gather, gather-modify-scatter)
      end do
   end subroutine fock_build
end module chemistry

module particles_and_graphs
   implicit none
   integer, parameter :: rk = selected_real_kind(6)
   integer, parameter :: colour(0:15) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
   type :: item
      integer :: key = 0
      type(item), pointer :: after => null()
   end type item
contains

   subroutine push(np, pos, vel, cell, field, h)
      integer, intent(in) :: np
      real(rk), intent(inout) :: pos(:), vel(:)
      integer, intent(out) :: cell(:)
      real(rk), intent(in) :: field(:), h
      integer :: ip
      do ip = 1, np                                   ! loop: parallel
         cell(ip) = int(pos(ip) / h) + 1              ! idiom: stream
      end do
      do ip = 1, np                                   ! loop: parallel
         vel(ip) = vel(ip) + field(cell(ip))          ! idiom: gather
         pos(ip) = pos(ip) + vel(ip)                  ! idiom: stream
      end do
   end subroutine push

   subroutine charge(pos, weight, h, rho)
      real(rk), intent(in) :: pos(:), weight(:), h
      real(rk), intent(inout) :: rho(:)
      real(rk) :: left
      integer :: ip, c
      do ip = 1, size(pos)                            ! loop: reduction
         c = int(pos(ip) / h) + 1
         left = weight(ip) * (c - pos(ip) / h)
         rho(c) = rho(c) + left                       ! idiom: gather-modify-scatter
         rho(c + 1) = rho(c + 1) + weight(ip) - left  ! idiom: gather-modify-scatter
      end do
   end subroutine charge

   subroutine bucket(n, key, start, order)
      integer, intent(in) :: n, key(n)
      integer, intent(inout) :: start(0:), order(n)
      integer :: i
      start = 0                                       ! idiom: stream
      do i = 1, n                                     ! loop: reduction
         start(key(i)) = start(key(i)) + 1            ! idiom: gather-modify-scatter
      end do
      do i = 1, ubound(start, 1)                      ! loop: recurrence
         start(i) = start(i) + start(i - 1)           ! idiom: prefix-scan
      end do
      do i = 1, n                                     ! loop: parallel
         order(i) = start(key(i))                     ! idiom: gather
      end do
   end subroutine bucket

   subroutine survivors(n, energy, cut, alive, left)
      integer, intent(in) :: n
      real(rk), intent(in) :: energy(n), cut
      integer, intent(out) :: alive(n), left
      integer :: i
      left = 0
      scan: do i = 1, n                               ! loop: recurrence
         select case (energy(i) > cut)
         case (.true.)
            left = left + 1
            alive(left) = i                           ! idiom: compaction
         end select
      end do scan
   end subroutine survivors

   subroutine remap(n, image, out)
      integer, intent(in) :: n, image(n, n)
      integer, intent(out) :: out(n, n)
      integer :: x, y
      do y = 1, n                                     ! loop: parallel
         do x = 1, n                                  ! loop: parallel
            out(x, y) = colour(iand(image(x, y), 15)) ! idiom: table-lookup
         end do
      end do
   end subroutine remap

   subroutine rotated(n, image, out)
      integer, intent(in) :: n, image(n, n)
      integer, intent(out) :: out(n, n)
      integer :: x, y
      do y = 1, n                                     ! loop: parallel
         do x = 1, n                                  ! loop: parallel
            out(x, y) = image(y, n + 1 - x)           ! idiom: transpose
         end do
      end do
   end subroutine rotated

   subroutine page_rank(n, first, from, rank, new, degree)
      integer, intent(in) :: n, first(n + 1), from(*), degree(n)
      real(rk), intent(in) :: rank(n)
      real(rk), intent(out) :: new(n)
      real(rk) :: sum_
      integer :: v, e
      do v = 1, n                                     ! loop: parallel
         sum_ = 0
         do e = first(v), first(v + 1) - 1            ! loop: reduction
            sum_ = sum_ + rank(from(e)) / degree(from(e)) ! idiom: gather (reduction)
         end do
         new(v) = 0.15_rk / n + 0.85_rk * sum_        ! idiom: none
      end do
   end subroutine page_rank

   subroutine laplacian(n, first, neighbour, w, x, y)
      integer, intent(in) :: n, first(:), neighbour(:)
      real(rk), intent(in) :: w(:), x(:)
      real(rk), intent(out) :: y(:)
      integer :: v, e
      do v = 1, n                                     ! loop: parallel
         y(v) = 0                                     ! idiom: stream
         do e = first(v), first(v + 1) - 1            ! loop: reduction
            y(v) = y(v) - x(neighbour(e)) * w(e)      ! idiom: sparse-product-csr (gather, reduction)
         end do
      end do
   end subroutine laplacian

   subroutine labels(n, parent)
      integer, intent(in) :: n
      integer, intent(inout) :: parent(n)
      integer :: v, r
      do v = 1, n                                     ! loop: unjudged
         r = v
         do while (parent(r) /= r)                    ! loop: recurrence
            r = parent(r)                             ! idiom: pointer-chase
         end do
         parent(v) = r                                ! idiom: none
      end do
   end subroutine labels

   function find(list, key) result(at)
      type(item), pointer, intent(in) :: list
      integer, intent(in) :: key
      type(item), pointer :: at
      at => list
      do while (associated(at))                       ! loop: unjudged
         if (at%key == key) exit
         at => at%after                               ! idiom: pointer-chase
      end do
   end function find

   subroutine rosenbrock(n, x, grad)
      integer, intent(in) :: n
      real(rk), intent(in) :: x(n)
      real(rk), intent(out) :: grad(n)
      integer :: i
      grad = 0                                        ! idiom: stream
      do i = 1, n - 1                                 ! loop: unjudged
         grad(i) = grad(i) - 400 * x(i) * (x(i + 1) - x(i)**2) ! idiom: stencil
         grad(i + 1) = grad(i + 1) + 200 * (x(i + 1) - x(i)**2) ! idiom: stencil
      end do
   end subroutine rosenbrock

   subroutine walsh(n, a)
      integer, intent(in) :: n
      real(rk), intent(inout) :: a(0:n - 1)
      real(rk) :: x, y
      integer :: h, i, j
      h = 1
      do while (h < n)                                ! loop: recurrence
         do i = 0, n - 1, 2 * h                       ! loop: unjudged
            do j = i, i + h - 1                       ! loop: parallel
               x = a(j)
               y = a(j + h)
               a(j) = x + y                           ! idiom: fft-butterfly
               a(j + h) = x - y
            end do
         end do
         h = 2 * h
      end do
   end subroutine walsh

   subroutine residual(n, a, x, b, r)
      integer, intent(in) :: n
      real(rk), intent(in) :: a(n, n), x(n), b(n)
      real(rk), intent(out) :: r(n)
      integer :: i, j
      r = b                                           ! idiom: stream
      do j = 1, n                                     ! loop: reduction
         if (x(j) == 0) cycle
         do i = 1, n                                  ! loop: parallel
            r(i) = r(i) - a(i, j) * x(j)              ! idiom: matrix-vector-product
         end do
      end do
   end subroutine residual

   subroutine moving(n, w, x, y)
      integer, intent(in) :: n, w
      real(rk), intent(in) :: x(n)
      real(rk), intent(out) :: y(n)
      real(rk) :: s
      integer :: i, j
      do i = 1, n - w + 1                             ! loop: parallel
         s = 0
         do j = 0, w - 1                              ! loop: reduction
            s = s + x(i + j)                          ! idiom: reduction
         end do
         y(i) = s / w                                 ! idiom: none
      end do
   end subroutine moving

   subroutine ell_product(n, width, cols, vals, x, y)
      integer, intent(in) :: n, width, cols(width, n)
      real(rk), intent(in) :: vals(width, n), x(n)
      real(rk), intent(out) :: y(n)
      integer :: i
      do i = 1, n                                     ! loop: parallel
         y(i) = dot_product(vals(:, i), x(cols(:, i))) ! idiom: sparse-product-ell (gather, reduction)
      end do
   end subroutine ell_product
end module particles_and_graphs
