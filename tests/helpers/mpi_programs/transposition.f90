! A distributed matrix transposed back and forth as between the dimensions of a Fourier transform: alltoall, a broadcast
! of its twiddle factors, a barrier. The tally is a closed form.
program transposition
  use mpi
  implicit none
  integer, parameter :: rounds = 12, block = 16
  complex(kind(0d0)), allocatable :: rows(:, :, :), columns(:, :, :)
  complex(kind(0d0)) :: twiddle(block)
  integer :: rank, ranks, round, error, request

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate (rows(block, block, ranks), columns(block, block, ranks))
  rows = cmplx(rank, 1, kind(0d0))
  twiddle = (0.5d0, 0.5d0)
  call MPI_Bcast(twiddle, block, MPI_DOUBLE_COMPLEX, 0, MPI_COMM_WORLD, error)
  do round = 1, rounds
    call MPI_Alltoall(rows, block*block, MPI_DOUBLE_COMPLEX, columns, block*block, MPI_DOUBLE_COMPLEX, &
                      MPI_COMM_WORLD, error)
    columns = columns*twiddle(1)
    call MPI_Ialltoall(columns, block*block, MPI_DOUBLE_COMPLEX, rows, block*block, MPI_DOUBLE_COMPLEX, &
                       MPI_COMM_WORLD, request, error)
    call MPI_Wait(request, MPI_STATUS_IGNORE, error)
  end do
  call MPI_Barrier(MPI_COMM_WORLD, error)
  print '(a,1x,i0,1x,a)', 'tally', rank, 'bcast 0 256 1'
  print '(a,1x,i0,1x,a,1x,i0)', 'tally', rank, 'alltoall 0 4096', 2*rounds
  print '(a,1x,i0,1x,a,1x,i0)', 'tally', rank, 'wait 0 0', rounds
  print '(a,1x,i0,1x,a)', 'tally', rank, 'barrier 0 0 1'
  flush (6)
  call MPI_Finalize(error)
end program transposition
