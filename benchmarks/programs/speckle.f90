! usage: speckle [WIDTH [HEIGHT [ITERATIONS]]]
!
! Takes the speckle out of an ultrasound image and leaves its edges: anisotropic diffusion whose coefficient falls with
! the local contrast (Yu and Acton, "Speckle Reducing Anisotropic Diffusion", IEEE Trans. Image Processing 11, 2002).
module diffusion
    use program, only: real64
    implicit none

contains

    ! Square of the speckle's scale: variance over squared mean, here of the whole image.
    real(real64) function speckle_scale(image) result(q2)
        real(real64), intent(in) :: image(:, :)
        real(real64) :: mean

        mean = sum(image)/size(image)
        q2 = (sum(image*image)/size(image) - mean*mean)/(mean*mean)
    end function

    ! Coefficient of each point, 0 where the image has an edge, 1 where it is flat but for speckle.
    subroutine find_coefficients(image, q02, c)
        real(real64), intent(in) :: image(:, :), q02
        real(real64), intent(inout) :: c(:, :)
        real(real64) :: here, north, south, west, east, gradient, laplacian, q2
        integer :: i, j

        do j = 2, size(image, 2) - 1
            do i = 2, size(image, 1) - 1
                here = image(i, j)
                north = image(i - 1, j) - here
                south = image(i + 1, j) - here
                west = image(i, j - 1) - here
                east = image(i, j + 1) - here
                gradient = (north*north + south*south + west*west + east*east)/(here*here)
                laplacian = (north + south + west + east)/here
                q2 = (0.5*gradient - laplacian*laplacian/16)/(1 + 0.25*laplacian)**2
                c(i, j) = min(1.0_real64, max(0.0_real64, 1/(1 + (q2 - q02)/(q02*(1 + q02)))))
            end do
        end do
    end subroutine

    subroutine diffuse(c, image)
        real(real64), intent(in) :: c(:, :)
        real(real64), intent(inout) :: image(:, :)
        real(real64) :: flow
        integer :: i, j

        do j = 2, size(image, 2) - 1
            do i = 2, size(image, 1) - 1
                flow = c(i + 1, j)*(image(i + 1, j) - image(i, j)) + c(i, j)*(image(i - 1, j) - image(i, j)) &
                    + c(i, j + 1)*(image(i, j + 1) - image(i, j)) + c(i, j)*(image(i, j - 1) - image(i, j))
                image(i, j) = image(i, j) + 0.05*flow
            end do
        end do
    end subroutine
end module

program speckle
    use program, only: int64, real64, check_usage, number_argument, random_unit
    use diffusion, only: speckle_scale, find_coefficients, diffuse
    implicit none
    real(real64), allocatable :: image(:, :), c(:, :)
    integer :: width, height, iterations, i, j, n
    integer(int64) :: state = 42

    call check_usage(3, 'speckle [WIDTH [HEIGHT [ITERATIONS]]]')
    width = number_argument(1, 503, 3, 20000)
    height = number_argument(2, 461, 3, 20000)
    iterations = number_argument(3, 67, 1, 1000000)
    allocate (image(width, height), c(width, height))
    do j = 1, height
        do i = 1, width
            image(i, j) = merge(3.0, 1.0, mod(i, 83) < 30 .and. mod(j, 71) < 40)*exp(0.4*random_unit(state))
        end do
    end do
    c = 1
    do n = 1, iterations
        call find_coefficients(image, speckle_scale(image), c)
        call diffuse(c, image)
    end do
    print '(a, 2(1x, i0), a, i0, a, f0.8, a, f0.10)', 'points', width, height, '  iterations ', iterations, &
        '  mean ', sum(image)/size(image), '  checksum ', speckle_scale(image)
end program
