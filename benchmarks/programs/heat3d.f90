! usage: heat3d [WIDTH [HEIGHT [DEPTH [STEPS]]]]
!
! Heat that spreads in a block of uneven conductivity: a seven-point stencil in three dimensions, explicit time steps.
module conduction
    use program, only: real64
    implicit none

contains

    subroutine step(conductivity, t, next)
        real(real64), intent(in) :: conductivity(:, :, :), t(:, :, :)
        real(real64), intent(inout) :: next(:, :, :)
        integer :: i, j, k

        do k = 2, size(t, 3) - 1
            do j = 2, size(t, 2) - 1
                do i = 2, size(t, 1) - 1
                    next(i, j, k) = t(i, j, k) + conductivity(i, j, k)*(t(i - 1, j, k) + t(i + 1, j, k) &
                        + t(i, j - 1, k) + t(i, j + 1, k) + t(i, j, k - 1) + t(i, j, k + 1) - 6*t(i, j, k))
                end do
            end do
        end do
    end subroutine
end module

program heat3d
    use program, only: int64, real64, check_usage, number_argument, random_unit
    use conduction, only: step
    implicit none
    real(real64), allocatable :: conductivity(:, :, :), t(:, :, :), next(:, :, :), spare(:, :, :)
    integer :: width, height, depth, steps, i, j, k, s
    integer(int64) :: state = 41

    call check_usage(4, 'heat3d [WIDTH [HEIGHT [DEPTH [STEPS]]]]')
    width = number_argument(1, 143, 3, 2000)
    height = number_argument(2, 127, 3, 2000)
    depth = number_argument(3, 109, 3, 2000)
    steps = number_argument(4, 67, 1, 1000000)
    allocate (conductivity(width, height, depth), t(width, height, depth), next(width, height, depth))
    do k = 1, depth
        do j = 1, height
            do i = 1, width
                conductivity(i, j, k) = 0.05 + 0.1*random_unit(state)
            end do
        end do
    end do
    t = 20
    t(width/2:, height/3, depth/2) = 1000
    next = t
    do s = 1, steps
        call step(conductivity, t, next)
        call move_alloc(t, spare)
        call move_alloc(next, t)
        call move_alloc(spare, next)
    end do
    print '(a, 3(1x, i0), a, i0, a, f0.8)', 'points', width, height, depth, '  steps ', steps, '  checksum ', &
        sum(t*t)/size(t)
end program
