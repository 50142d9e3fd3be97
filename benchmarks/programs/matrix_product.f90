! usage: matrix_product [ROWS [BLOCK]]
!
! Product of two dense matrices, block by block so that the blocks stay in the cache.
module blocks
    use program, only: real64
    implicit none

contains

    subroutine multiply_blocked(block, a, b, c)
        integer, intent(in) :: block
        real(real64), intent(in) :: a(:, :), b(:, :)
        real(real64), intent(inout) :: c(:, :)
        integer :: n, i, j, k, ii, kk

        n = size(a, 1)
        c = 0
        do kk = 1, n, block
            do ii = 1, n, block
                do j = 1, n
                    do k = kk, min(kk + block - 1, n)
                        do i = ii, min(ii + block - 1, n)
                            c(i, j) = c(i, j) + a(i, k)*b(k, j)
                        end do
                    end do
                end do
            end do
        end do
    end subroutine
end module

program matrix_product
    use program, only: int64, real64, check_usage, number_argument, random_unit
    use blocks, only: multiply_blocked
    implicit none
    real(real64), allocatable :: a(:, :), b(:, :), c(:, :)
    real(real64) :: difference
    integer :: n, block, i, j
    integer(int64) :: state = 45

    call check_usage(2, 'matrix_product [ROWS [BLOCK]]')
    n = number_argument(1, 761, 1, 10000)
    block = number_argument(2, 73, 1, 10000)
    allocate (a(n, n), b(n, n), c(n, n))
    do j = 1, n
        do i = 1, n
            a(i, j) = random_unit(state)
            b(i, j) = random_unit(state) - 0.5
        end do
    end do
    call multiply_blocked(block, a, b, c)
    difference = abs(sum(c) - dot_product(sum(a, 1), sum(b, 2)))
    if (difference > 1e-6*n) error stop 'the product is wrong'
    print '(a, i0, a, i0, a, f0.8)', 'rows ', n, '  block ', block, '  checksum ', sum(c*c)/n
end program
