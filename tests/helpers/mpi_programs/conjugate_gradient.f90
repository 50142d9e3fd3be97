! Conjugate gradients on a line of cells in blocks: halos by sendrecv, dot products by allreduce. The tally is a closed
! form of the numbers of iterations and cells.
program conjugate_gradient
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: real64, output_unit
  implicit none
  integer, parameter :: iterations = 30, cells = 500
  real(real64) :: x(cells), r(cells), p(0:cells + 1), q(cells), rho, old, alpha
  integer :: rank, ranks, left, right, iteration

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  left = merge(MPI_PROC_NULL, rank - 1, rank == 0)
  right = merge(MPI_PROC_NULL, rank + 1, rank == ranks - 1)
  x = 0
  r = 1 + rank
  p = 0
  p(1:cells) = r
  rho = dot(r, r)
  do iteration = 1, iterations
    call MPI_Sendrecv(p(cells), 1, MPI_DOUBLE_PRECISION, right, 1, p(0), 1, MPI_DOUBLE_PRECISION, left, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(p(1), 1, MPI_DOUBLE_PRECISION, left, 2, p(cells + 1), 1, MPI_DOUBLE_PRECISION, right, 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    q = 2.5_real64*p(1:cells) - p(0:cells - 1) - p(2:cells + 1)
    alpha = rho/dot(p(1:cells), q)
    x = x + alpha*p(1:cells)
    r = r - alpha*q
    old = rho
    rho = dot(r, r)
    p(1:cells) = r + rho/old*p(1:cells)
  end do
  call tally('allreduce', 0, 8, 1 + 2*iterations)
  if (left /= MPI_PROC_NULL .and. right /= MPI_PROC_NULL) then
    call tally('exchange', right, 8, iterations)
    call tally('exchange', left, 8, iterations)
  else if (right /= MPI_PROC_NULL) then
    call tally('send', right, 8, iterations)
    call tally('receive', right, 8, iterations)
  else if (left /= MPI_PROC_NULL) then
    call tally('send', left, 8, iterations)
    call tally('receive', left, 8, iterations)
  end if
  flush (output_unit)
  call MPI_Finalize()
contains
  function dot(a, b) result(sum)
    real(real64), intent(in) :: a(:), b(:)
    real(real64) :: own, sum
    own = dot_product(a, b)
    call MPI_Allreduce(own, sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  end function dot

  subroutine tally(kind, peer, bytes, times)
    character(*), intent(in) :: kind
    integer, intent(in) :: peer, bytes, times
    write (output_unit, '(a,1x,i0,1x,a,3(1x,i0))') 'tally', rank, kind, peer, bytes, times
  end subroutine tally
end program conjugate_gradient
