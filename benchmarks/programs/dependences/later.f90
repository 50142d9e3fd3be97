! Small loops, labelled as those in loops.c; written, and run for the first time, after the second set.
module work
    implicit none
    integer, parameter :: n = 1000, m = 24
    real(8) :: a(n), b(n), c(n), p(m, m), q(m, m)
    integer :: bin(n), tally(40)
contains
    subroutine fill()
        integer :: i
        do i = 1, n ! loop: none
            a(i) = mod(i, 11) + 0.5d0
            b(i) = mod(i, 7) + 1.0d0
            bin(i) = mod(i * 17, 40) + 1
        end do
    end subroutine
    subroutine tridiagonal()
        integer :: i
        do i = 2, n ! loop: recurrence 1
            b(i) = b(i) + 4.0d0 - 0.5d0 / b(i - 1)
        end do
        do i = n - 1, 1, -1 ! loop: recurrence 1
            a(i) = (a(i) - 0.5d0 * a(i + 1)) / b(i)
        end do
    end subroutine
    subroutine bins()
        integer :: i
        do i = 1, n ! loop: collision add
            tally(bin(i)) = tally(bin(i)) + 1
        end do
    end subroutine
    subroutine relax()
        integer :: i, j
        do j = 2, m - 1 ! loop: none
            do i = 2, m - 1 ! loop: none
                q(i, j) = 0.25d0 * (p(i - 1, j) + p(i + 1, j) + p(i, j - 1) + p(i, j + 1))
            end do
        end do
    end subroutine
    subroutine relax_in_place()
        integer :: i, j
        do j = 2, m - 1 ! loop: recurrence 1
            do i = 2, m - 1 ! loop: recurrence 1
                p(i, j) = 0.25d0 * (p(i - 1, j) + p(i + 1, j) + p(i, j - 1) + p(i, j + 1))
            end do
        end do
    end subroutine
    real(8) function norm()
        integer :: i
        norm = 0
        do i = 1, n ! loop: reduction add
            norm = norm + a(i) * a(i)
        end do
    end function
end module

program later
    use work
    implicit none
    real(8) :: total
    call fill()
    p = 1.0d0
    q = 0.0d0
    call tridiagonal()
    call bins()
    call relax()
    call relax_in_place()
    total = norm()
    print *, total, tally(3), q(3, 4), p(5, 6)
end program
