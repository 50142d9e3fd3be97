! usage: shallow_water [WIDTH [HEIGHT [STEPS]]]
!
! Waves in a basin over an uneven bed: the shallow-water equations on a staggered grid, heights and speeds in turn, with
! Coriolis force and friction. Checked by the volume of water.
module basin
    use program, only: real64
    implicit none
    real(real64), parameter :: gravity = 9.81, coriolis = 1e-4, friction = 1e-5, cell = 100

contains

    subroutine move_water(step, bed, u, v, h)
        real(real64), intent(in) :: step, bed(:, :), u(:, :), v(:, :)
        real(real64), intent(inout) :: h(:, :)
        real(real64) :: west, east, south, north
        integer :: i, j

        do j = 2, size(h, 2) - 1
            do i = 2, size(h, 1) - 1
                west = u(i, j)*0.5*(bed(i - 1, j) + bed(i, j))
                east = u(i + 1, j)*0.5*(bed(i, j) + bed(i + 1, j))
                south = v(i, j)*0.5*(bed(i, j - 1) + bed(i, j))
                north = v(i, j + 1)*0.5*(bed(i, j) + bed(i, j + 1))
                h(i, j) = h(i, j) - step/cell*(east - west + north - south)
            end do
        end do
    end subroutine

    ! No water flows through the walls: speeds there stay 0.
    subroutine accelerate(step, h, u, v)
        real(real64), intent(in) :: step, h(:, :)
        real(real64), intent(inout) :: u(:, :), v(:, :)
        real(real64) :: across
        integer :: i, j

        do j = 2, size(h, 2) - 1
            do i = 3, size(h, 1) - 1
                across = 0.25*(v(i, j) + v(i - 1, j) + v(i, j + 1) + v(i - 1, j + 1))
                u(i, j) = u(i, j)*(1 - step*friction) + step*(coriolis*across - gravity/cell*(h(i, j) - h(i - 1, j)))
            end do
        end do
        do j = 3, size(h, 2) - 1
            do i = 2, size(h, 1) - 1
                across = 0.25*(u(i, j) + u(i + 1, j) + u(i, j - 1) + u(i + 1, j - 1))
                v(i, j) = v(i, j)*(1 - step*friction) - step*(coriolis*across + gravity/cell*(h(i, j) - h(i, j - 1)))
            end do
        end do
    end subroutine
end module

program shallow_water
    use program, only: int64, real64, check_usage, number_argument, random_unit
    use basin, only: move_water, accelerate
    implicit none
    real(real64), allocatable, dimension(:, :) :: bed, h, u, v
    real(real64) :: before
    integer :: width, height, steps, i, j, s
    integer(int64) :: state = 44

    call check_usage(3, 'shallow_water [WIDTH [HEIGHT [STEPS]]]')
    width = number_argument(1, 613, 4, 20000)
    height = number_argument(2, 509, 4, 20000)
    steps = number_argument(3, 173, 1, 1000000)
    allocate (bed(width, height), h(width, height), u(width, height), v(width, height))
    do j = 1, height
        do i = 1, width
            bed(i, j) = 20 + 10*random_unit(state)
            h(i, j) = exp(-(real(i - width/3, real64)**2 + real(j - height/2, real64)**2)/400)
        end do
    end do
    u = 0
    v = 0
    before = sum(h(2:width - 1, 2:height - 1))
    do s = 1, steps
        call move_water(1.0_real64, bed, u, v, h)
        call accelerate(1.0_real64, h, u, v)
    end do
    if (abs(sum(h(2:width - 1, 2:height - 1))/before - 1) > 1e-9) error stop 'the volume of water has changed'
    print '(a, 2(1x, i0), a, i0, a, f0.10)', 'points', width, height, '  steps ', steps, '  checksum ', sum(h*h)
end program
