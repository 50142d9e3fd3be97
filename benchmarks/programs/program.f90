! What the programs in Fortran share, as program.h is for those in C: arguments and pseudo-random numbers.
module program
    use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit, output_unit
    implicit none
    private
    public :: int64, real64, check_usage, number_argument, random_unit

contains

    ! Help is asked for, or there are more arguments than the program takes.
    subroutine check_usage(most, usage)
        integer, intent(in) :: most
        character(*), intent(in) :: usage
        character(8) :: first

        call get_command_argument(1, first)
        if (command_argument_count() > most) then
            write (error_unit, '(2a)') 'usage: ', usage
            stop 2, quiet=.true.
        else if (first == '-h' .or. first == '--help') then
            write (output_unit, '(2a)') 'usage: ', usage
            stop 0, quiet=.true.
        end if
    end subroutine

    ! The number in an argument, or the fallback where the argument is not given; ends the program on anything else.
    integer function number_argument(position, fallback, least, most) result(number)
        integer, intent(in) :: position, fallback, least, most
        character(32) :: text
        integer :: status, length

        number = fallback
        if (position > command_argument_count()) return
        call get_command_argument(position, text, length)
        status = 1
        if (length > 0 .and. length < 10 .and. verify(trim(text), '0123456789') == 0) read (text, *, iostat=status) number
        if (status /= 0 .or. number < least .or. number > most) then
            write (error_unit, '(a, i0, 3a, i0, a, i0)') 'argument ', position, ' is ''', trim(text), &
                ''', must be a whole number from ', least, ' to ', most
            stop 2, quiet=.true.
        end if
    end function

    ! A number from 0 to 1, by a linear congruential generator of 48 bits with the constants of POSIX's drand48.
    real(real64) function random_unit(state)
        integer(int64), intent(inout) :: state

        state = iand(state*25214903917_int64 + 11_int64, 281474976710655_int64)
        random_unit = real(state, real64)/281474976710656.0_real64
    end function
end module
