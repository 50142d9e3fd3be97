! Branches of the preprocessor and of the language.
#define CENTRED 1
#define SCALE 2.0
subroutine differences(n, a, b)
   implicit none
   integer, intent(in) :: n
   real, intent(in) :: b(0:n + 1)
   real, intent(out) :: a(n)
   integer :: i
   do i = 1, n                                     ! loop: parallel
#if CENTRED
      a(i) = b(i + 1) - b(i - 1)                   ! idiom: stencil
#else
      a(i) = b(i)
#endif
   end do
#ifdef MISSING
   do i = 1, n
      a(i) = a(i - 1)
   end do
#endif
   associate (left => b(0:n - 1))
      do i = 1, n                                  ! loop: parallel
         a(i) = a(i) + left(i)                     ! idiom: stream
      end do
   end associate
   block
      real :: total
      total = 0.0
      outer: do i = 1, n                           ! loop: reduction
         if (a(i) < 0.0) cycle outer
         total = total + a(i)                      ! idiom: reduction
      end do outer
      a(1) = total
   end block
end subroutine differences
