! Heat in a square plate, OpenMP in Fortran: two grids that fit in no private cache, a parallel region for each step.
program heat_team
    use omp_lib, only: omp_set_num_threads
    use, intrinsic :: iso_fortran_env, only: real64, error_unit
    implicit none
    integer, parameter :: n = 1200, steps = 100
    real(real64), allocatable :: old(:, :), new(:, :)
    character(8) :: text
    integer :: threads, status, step

    threads = 1
    status = 0
    call get_command_argument(1, text)
    if (command_argument_count() > 0) read (text, *, iostat=status) threads
    if (status /= 0 .or. threads < 1 .or. threads > 64) then
        write (error_unit, '(a)') 'usage: heat_team [THREADS], from 1 to 64'
        stop 2, quiet=.true.
    end if
    call omp_set_num_threads(threads)
    allocate (old(n, n), new(n, n))
    old = 0
    new = 0
    old(:, 1) = 100
    new(:, 1) = 100
    do step = 1, steps/2
        call relax(old, new)
        call relax(new, old)
    end do
    print '(f0.8)', sum(old(:, 2))/n

contains

    subroutine relax(from, to)
        real(real64), intent(in) :: from(:, :)
        real(real64), intent(inout) :: to(:, :)
        integer :: i, j

        !$omp parallel do private(i) schedule(static)
        do j = 2, n - 1
            do i = 2, n - 1
                to(i, j) = 0.25_real64*(from(i - 1, j) + from(i + 1, j) + from(i, j - 1) + from(i, j + 1))
            end do
        end do
        !$omp end parallel do
    end subroutine
end program
