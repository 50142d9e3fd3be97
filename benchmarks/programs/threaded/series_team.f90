! Sums of a trigonometric series, OpenMP in Fortran: compute-bound, each row longer than the one before it.
program series_team
    use omp_lib, only: omp_set_num_threads
    use, intrinsic :: iso_fortran_env, only: real64, error_unit
    implicit none
    integer, parameter :: rows = 14000
    real(real64) :: values(rows)
    character(8) :: text
    integer :: threads, status

    threads = 1
    status = 0
    call get_command_argument(1, text)
    if (command_argument_count() > 0) read (text, *, iostat=status) threads
    if (status /= 0 .or. threads < 1 .or. threads > 64) then
        write (error_unit, '(a)') 'usage: series_team [THREADS], from 1 to 64'
        stop 2, quiet=.true.
    end if
    call omp_set_num_threads(threads)
    call sums(values)
    print '(f0.8)', sum(values)

contains

    subroutine sums(values)
        real(real64), intent(out) :: values(:)
        real(real64) :: total, term
        integer :: i, k

        !$omp parallel do private(k, total, term) schedule(static)
        do i = 1, size(values)
            total = 0
            term = 1
            do k = 1, i
                term = -term*0.999_real64
                total = total + term/(1 + k)
            end do
            values(i) = total
        end do
        !$omp end parallel do
    end subroutine
end program
