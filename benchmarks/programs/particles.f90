! usage: particles [PARTICLES [CELLS_PER_SIDE [STEPS]]]
!
! Charged particles on a periodic grid (particle in cell, two dimensions): each leaves its charge on the four grid points
! around it, the field follows from a few sweeps for the potential, and each is pushed by the field between these points.
module particle_in_cell
    use program, only: real64
    implicit none

contains

    subroutine deposit(x, y, charge)
        real(real64), intent(in) :: x(:), y(:)
        real(real64), intent(inout) :: charge(0:, 0:)
        real(real64) :: fx, fy
        integer :: p, i, j, ii, jj, n

        n = size(charge, 1)
        charge = 0
        do p = 1, size(x)
            i = int(x(p))
            j = int(y(p))
            fx = x(p) - i
            fy = y(p) - j
            ii = merge(0, i + 1, i + 1 == n)
            jj = merge(0, j + 1, j + 1 == n)
            charge(i, j) = charge(i, j) + (1 - fx)*(1 - fy)
            charge(ii, j) = charge(ii, j) + fx*(1 - fy)
            charge(i, jj) = charge(i, jj) + (1 - fx)*fy
            charge(ii, jj) = charge(ii, jj) + fx*fy
        end do
    end subroutine

    ! Jacobi sweeps for the potential, then its slope.
    subroutine find_field(charge, mean, potential, spare, ex, ey)
        real(real64), intent(in) :: charge(:, :), mean
        real(real64), intent(inout) :: potential(:, :), spare(:, :), ex(:, :), ey(:, :)
        integer :: i, j, up, down, left, right, n, sweep

        n = size(charge, 1)
        do sweep = 1, 6
            do j = 1, n
                left = merge(n, j - 1, j == 1)
                right = merge(1, j + 1, j == n)
                do i = 1, n
                    up = merge(n, i - 1, i == 1)
                    down = merge(1, i + 1, i == n)
                    spare(i, j) = 0.25*(potential(up, j) + potential(down, j) + potential(i, left) &
                        + potential(i, right) + 0.01*(charge(i, j) - mean))
                end do
            end do
            potential = spare
        end do
        do j = 1, n
            left = merge(n, j - 1, j == 1)
            right = merge(1, j + 1, j == n)
            do i = 1, n
                up = merge(n, i - 1, i == 1)
                down = merge(1, i + 1, i == n)
                ex(i, j) = 0.5*(potential(up, j) - potential(down, j))
                ey(i, j) = 0.5*(potential(i, left) - potential(i, right))
            end do
        end do
    end subroutine

    subroutine push(ex, ey, step, x, y, vx, vy)
        real(real64), intent(in) :: ex(0:, 0:), ey(0:, 0:), step
        real(real64), intent(inout) :: x(:), y(:), vx(:), vy(:)
        real(real64) :: fx, fy, side
        integer :: p, i, j, ii, jj, n

        n = size(ex, 1)
        side = n
        do p = 1, size(x)
            i = int(x(p))
            j = int(y(p))
            fx = x(p) - i
            fy = y(p) - j
            ii = merge(0, i + 1, i + 1 == n)
            jj = merge(0, j + 1, j + 1 == n)
            vx(p) = vx(p) + step*((1 - fy)*((1 - fx)*ex(i, j) + fx*ex(ii, j)) + fy*((1 - fx)*ex(i, jj) + fx*ex(ii, jj)))
            vy(p) = vy(p) + step*((1 - fy)*((1 - fx)*ey(i, j) + fx*ey(ii, j)) + fy*((1 - fx)*ey(i, jj) + fx*ey(ii, jj)))
            x(p) = x(p) + step*vx(p)
            y(p) = y(p) + step*vy(p)
            x(p) = min(max(x(p) - side*floor(x(p)/side), 0.0_real64), side*(1 - 1e-12_real64))
            y(p) = min(max(y(p) - side*floor(y(p)/side), 0.0_real64), side*(1 - 1e-12_real64))
        end do
    end subroutine
end module

program particles
    use program, only: int64, real64, check_usage, number_argument, random_unit
    use particle_in_cell, only: deposit, find_field, push
    implicit none
    real(real64), allocatable :: x(:), y(:), vx(:), vy(:)
    real(real64), allocatable, dimension(:, :) :: charge, potential, spare, ex, ey
    integer :: n, cells, steps, p, s
    integer(int64) :: state = 43

    call check_usage(3, 'particles [PARTICLES [CELLS_PER_SIDE [STEPS]]]')
    n = number_argument(1, 290000, 1, 50000000)
    cells = number_argument(2, 131, 2, 5000)
    steps = number_argument(3, 53, 1, 1000000)
    allocate (x(n), y(n), vx(n), vy(n))
    allocate (charge(cells, cells), potential(cells, cells), spare(cells, cells), ex(cells, cells), ey(cells, cells))
    do p = 1, n
        x(p) = cells*random_unit(state)
        y(p) = cells*random_unit(state)
        vx(p) = random_unit(state) - 0.5
        vy(p) = random_unit(state) - 0.5
    end do
    potential = 0
    do s = 1, steps
        call deposit(x, y, charge)
        call find_field(charge, real(n, real64)/size(charge), potential, spare, ex, ey)
        call push(ex, ey, 0.05_real64, x, y, vx, vy)
    end do
    print '(a, i0, a, i0, a, f0.6, a, f0.6)', 'particles ', n, '  steps ', steps, '  charge ', sum(charge), &
        '  checksum ', sum(vx*vx + vy*vy)
end program
