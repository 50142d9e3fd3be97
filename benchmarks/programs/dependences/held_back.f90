! More small loops, labelled as those in loops.c. They were written when foretrace was done with those.
module held_back
  implicit none
  integer, parameter :: n = 900, m = 24
  real(4) :: s(n)
  real(8) :: u(m, m), v(m, m), x(n), total
  integer :: count(16), kind(n)
contains

  subroutine prepare()
    integer :: i, j
    do i = 1, n  ! loop: none
      x(i) = sin(0.1d0 * i)
      s(i) = real(mod(i, 9))
      kind(i) = mod(i * 5, 16) + 1
    end do
    do j = 1, m  ! loop: none
      do i = 1, m  ! loop: none
        u(i, j) = i + 2 * j
      end do
    end do
  end subroutine prepare

  subroutine relax()
    integer :: i, j
    do j = 2, m - 1  ! loop: recurrence 1
      do i = 2, m - 1  ! loop: recurrence 1
        u(i, j) = 0.25d0 * (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1))
      end do
    end do
  end subroutine relax

  subroutine row_sums(sums)
    real(8), intent(inout) :: sums(m)
    integer :: i, j
    do j = 1, m  ! loop: reduction add
      do i = 1, m  ! loop: none
        sums(i) = sums(i) + u(i, j)
      end do
    end do
  end subroutine row_sums

  subroutine classify()
    integer :: i
    do i = 1, n  ! loop: collision add
      count(kind(i)) = count(kind(i)) + 1
    end do
  end subroutine classify

  real(4) function largest()
    integer :: i
    largest = s(1)
    do i = 2, n  ! loop: reduction
      if (s(i) > largest) largest = s(i)
    end do
  end function largest

  subroutine cumulate()
    integer :: i
    total = 0
    do i = 1, n  ! loop: recurrence 1
      total = total + abs(x(i))
      x(i) = total
    end do
  end subroutine cumulate

  subroutine transposed()
    integer :: i, j
    do j = 1, m  ! loop: none
      do i = 1, m  ! loop: none
        v(i, j) = u(j, i)
      end do
    end do
  end subroutine transposed

  subroutine filter(y)
    real(8), intent(inout) :: y(n)
    real(8) :: state
    integer :: i
    state = 0
    do i = 1, n  ! loop: recurrence 1
      state = 0.9d0 * state + 0.1d0 * x(i)
      y(i) = state
    end do
  end subroutine filter
end module held_back

program main
  use held_back
  implicit none
  real(8) :: sums(m), y(n)
  count = 0
  sums = 0
  call prepare()
  call relax()
  call row_sums(sums)
  call classify()
  call cumulate()
  call transposed()
  call filter(y)
  print *, sums(3), count(2), largest(), x(5), v(2, 3), y(6)
end program main
