! Small loops, labelled as those in loops.c.
module loops
  implicit none
  integer, parameter :: n = 1500, m = 30
  real(8) :: a(n), b(n), c(n), grid(m, m, m), work(m)
  integer :: index_apart(n), index_same(n)
contains

  subroutine fill()
    integer :: i
    do i = 1, n  ! loop: none
      a(i) = 1.0d0 + mod(i, 7)
      b(i) = 0.5d0 * mod(i, 5)
      index_apart(i) = mod(i * 11, n) + 1
      index_same(i) = mod(i, 17) + 1
    end do
    do i = 1, n  ! loop: none
      if (gcd(11, n) /= 1) index_apart(i) = i
      c(i) = 0.1d0
    end do
  end subroutine fill

  recursive integer function gcd(x, y) result(found)
    integer, intent(in) :: x, y
    if (y == 0) then
      found = x
    else
      found = gcd(y, mod(x, y))
    end if
  end function gcd

  subroutine daxpy(alpha)
    real(8), intent(in) :: alpha
    integer :: i
    do i = 1, n  ! loop: none
      b(i) = b(i) + alpha * a(i)
    end do
  end subroutine daxpy

  real(8) function norm()
    integer :: i
    norm = 0
    do i = 1, n  ! loop: reduction add
      norm = norm + a(i) * a(i)
    end do
  end function norm

  real(8) function smallest()
    integer :: i
    smallest = huge(1.0d0)
    do i = 1, n  ! loop: reduction
      smallest = min(smallest, a(i))
    end do
  end function smallest

  subroutine laplace(target)
    real(8), intent(inout) :: target(m, m, m)
    integer :: i, j, k
    do k = 2, m - 1  ! loop: none
      do j = 2, m - 1  ! loop: none
        do i = 2, m - 1  ! loop: none
          target(i, j, k) = grid(i - 1, j, k) + grid(i + 1, j, k) + grid(i, j - 1, k) &
                            + grid(i, j, k + 1) - 4 * grid(i, j, k)
        end do
      end do
    end do
  end subroutine laplace

  subroutine tridiagonal()
    integer :: i
    do i = 2, n  ! loop: recurrence 1
      c(i) = (a(i) - 0.25d0 * c(i - 1)) / (4.0d0 + b(i))
    end do
    do i = n - 1, 1, -1  ! loop: recurrence 1
      c(i) = c(i) - 0.25d0 * c(i + 1)
    end do
  end subroutine tridiagonal

  subroutine lines()
    integer :: i, j, k
    do k = 1, m  ! loop: privatisable
      do j = 1, m  ! loop: privatisable
        do i = 1, m  ! loop: none
          work(i) = grid(i, j, k) * 2
        end do
        do i = 2, m  ! loop: none
          grid(i, j, k) = work(i - 1) + work(i)
        end do
      end do
    end do
  end subroutine lines

  subroutine assemble(matrix)
    real(8), intent(inout) :: matrix(n)
    integer :: i
    do i = 1, n  ! loop: collision add
      matrix(index_same(i)) = matrix(index_same(i)) + a(i)
    end do
    do i = 1, n  ! loop: none
      matrix(index_apart(i)) = matrix(index_apart(i)) + b(i)
    end do
  end subroutine assemble

  subroutine waves()
    integer :: i, j
    do j = 2, m  ! loop: recurrence 1
      do i = 2, m - 1  ! loop: none
        grid(i, j, 1) = 0.5d0 * (grid(i - 1, j - 1, 1) + grid(i + 1, j - 1, 1))
      end do
    end do
  end subroutine waves
end module loops

program main
  use loops
  implicit none
  real(8) :: result, matrix(n)
  real(8) :: target(m, m, m)
  integer :: i
  matrix = 0
  target = 0
  call fill()
  do i = 1, m  ! loop: none
    grid(:, :, i) = i
  end do
  call daxpy(0.5d0)
  result = norm() + smallest()
  call laplace(target)
  call tridiagonal()
  call lines()
  call assemble(matrix)
  call waves()
  print *, result, target(3, 4, 5), c(7), matrix(3), grid(4, 5, 1)
end program main
