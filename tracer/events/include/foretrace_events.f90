! Software-defined events from Fortran 2008. Compile with `foretrace events --cflags`, link with `foretrace events --libs`.
!
!     include 'foretrace_events.f90'  ! once, before the program; or compile this file with it
!     ...
!     use foretrace_events
!     type(c_ptr) :: solver, products
!     integer(c_long_long), target, save :: iterations
!     solver = sde_init('solver')
!     error = sde_register_counter(solver, 'iterations', sde_ro + sde_instant, sde_long_long, c_loc(iterations))
!     error = sde_create_counter(solver, 'products', sde_ro + sde_delta, products)
!     error = sde_inc_counter(products, 1_c_long_long)
!
! Functions return sde_ok or one of the error codes of foretrace_events.h. Trailing blanks of names do not count. What is
! registered must outlive the procedure: give it the SAVE attribute.
module foretrace_events
  use, intrinsic :: iso_c_binding
  implicit none
  private :: c_text

  integer(c_int), parameter :: sde_ro = 0, sde_rw = 1, sde_delta = 0, sde_instant = 16
  integer(c_int), parameter :: sde_long_long = 0, sde_int = 1, sde_double = 2, sde_float = 3
  integer(c_int32_t), parameter :: sde_sum = 0, sde_max = 1, sde_min = 2
  integer(c_int), parameter :: sde_ok = 0, sde_einval = -1, sde_enomem = -2, sde_ecmp = -4, sde_enoevnt = -7

  interface
    function papi_sde_init(name) bind(c) result(handle)
      import :: c_ptr, c_char
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr) :: handle
    end function

    function sde_shutdown(handle) bind(c, name='papi_sde_shutdown') result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: handle
      integer(c_int) :: error
    end function

    function papi_sde_register_counter(handle, name, mode, type, counter) bind(c) result(error)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: handle, counter
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: mode, type
      integer(c_int) :: error
    end function

    function papi_sde_register_counter_cb(handle, name, mode, type, callback, parameter) bind(c) result(error)
      import :: c_ptr, c_funptr, c_char, c_int
      type(c_ptr), value :: handle, parameter
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: mode, type
      type(c_funptr), value :: callback
      integer(c_int) :: error
    end function

    function papi_sde_unregister_counter(handle, name) bind(c) result(error)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: error
    end function

    function papi_sde_describe_counter(handle, name, description) bind(c) result(error)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*), description(*)
      integer(c_int) :: error
    end function

    function papi_sde_add_counter_to_group(handle, name, group, flags) bind(c) result(error)
      import :: c_ptr, c_char, c_int, c_int32_t
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*), group(*)
      integer(c_int32_t), value :: flags
      integer(c_int) :: error
    end function

    function papi_sde_create_counter(handle, name, mode, counter) bind(c) result(error)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: mode
      type(c_ptr), intent(out) :: counter
      integer(c_int) :: error
    end function

    function sde_inc_counter(counter, increment) bind(c, name='papi_sde_inc_counter') result(error)
      import :: c_ptr, c_int, c_long_long
      type(c_ptr), value :: counter
      integer(c_long_long), value :: increment
      integer(c_int) :: error
    end function

    function sde_reset_counter(counter) bind(c, name='papi_sde_reset_counter') result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: counter
      integer(c_int) :: error
    end function

    function papi_sde_create_recorder(handle, name, size_bytes, compare, recorder) bind(c) result(error)
      import :: c_ptr, c_funptr, c_char, c_int, c_size_t
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: size_bytes
      type(c_funptr), value :: compare
      type(c_ptr), intent(out) :: recorder
      integer(c_int) :: error
    end function

    function sde_record(recorder, size_bytes, value) bind(c, name='papi_sde_record') result(error)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: recorder, value
      integer(c_size_t), value :: size_bytes
      integer(c_int) :: error
    end function

    function sde_reset_recorder(recorder) bind(c, name='papi_sde_reset_recorder') result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: recorder
      integer(c_int) :: error
    end function

    function papi_sde_create_counting_set(handle, name, set) bind(c) result(error)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(out) :: set
      integer(c_int) :: error
    end function

    function sde_counting_set_insert(set, size_bytes, hashable_bytes, element, type_id) &
        bind(c, name='papi_sde_counting_set_insert') result(error)
      import :: c_ptr, c_int, c_size_t, c_int32_t
      type(c_ptr), value :: set, element
      integer(c_size_t), value :: size_bytes, hashable_bytes
      integer(c_int32_t), value :: type_id
      integer(c_int) :: error
    end function

    function sde_counting_set_remove(set, hashable_bytes, element, type_id) &
        bind(c, name='papi_sde_counting_set_remove') result(error)
      import :: c_ptr, c_int, c_size_t, c_int32_t
      type(c_ptr), value :: set, element
      integer(c_size_t), value :: hashable_bytes
      integer(c_int32_t), value :: type_id
      integer(c_int) :: error
    end function

    function papi_sde_get_counter_handle(handle, name) bind(c) result(counter)
      import :: c_ptr, c_char
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr) :: counter
    end function

    ! Comparison functions for recorders: c_funloc of them.
    function sde_compare_long_long(first, second) bind(c, name='papi_sde_compare_long_long') result(order)
      import :: c_ptr, c_int
      type(c_ptr), value :: first, second
      integer(c_int) :: order
    end function

    function sde_compare_int(first, second) bind(c, name='papi_sde_compare_int') result(order)
      import :: c_ptr, c_int
      type(c_ptr), value :: first, second
      integer(c_int) :: order
    end function

    function sde_compare_double(first, second) bind(c, name='papi_sde_compare_double') result(order)
      import :: c_ptr, c_int
      type(c_ptr), value :: first, second
      integer(c_int) :: order
    end function

    function sde_compare_float(first, second) bind(c, name='papi_sde_compare_float') result(order)
      import :: c_ptr, c_int
      type(c_ptr), value :: first, second
      integer(c_int) :: order
    end function
  end interface

contains

  function c_text(text) result(ended)
    character(*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: ended
    ended = trim(text) // c_null_char
  end function

  function sde_init(name) result(handle)
    character(*), intent(in) :: name
    type(c_ptr) :: handle
    handle = papi_sde_init(c_text(name))
  end function

  function sde_register_counter(handle, name, mode, type, counter) result(error)
    type(c_ptr), intent(in) :: handle, counter
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: mode, type
    integer(c_int) :: error
    error = papi_sde_register_counter(handle, c_text(name), mode, type, counter)
  end function

  function sde_register_counter_cb(handle, name, mode, type, callback, parameter) result(error)
    type(c_ptr), intent(in) :: handle, parameter
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: mode, type
    type(c_funptr), value :: callback
    integer(c_int) :: error
    error = papi_sde_register_counter_cb(handle, c_text(name), mode, type, callback, parameter)
  end function

  function sde_unregister_counter(handle, name) result(error)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: name
    integer(c_int) :: error
    error = papi_sde_unregister_counter(handle, c_text(name))
  end function

  function sde_describe_counter(handle, name, description) result(error)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: name, description
    integer(c_int) :: error
    error = papi_sde_describe_counter(handle, c_text(name), c_text(description))
  end function

  function sde_add_counter_to_group(handle, name, group, flags) result(error)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: name, group
    integer(c_int32_t), intent(in) :: flags
    integer(c_int) :: error
    error = papi_sde_add_counter_to_group(handle, c_text(name), c_text(group), flags)
  end function

  function sde_create_counter(handle, name, mode, counter) result(error)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: mode
    type(c_ptr), intent(out) :: counter
    integer(c_int) :: error
    error = papi_sde_create_counter(handle, c_text(name), mode, counter)
  end function

  function sde_create_recorder(handle, name, size_bytes, compare, recorder) result(error)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: size_bytes
    type(c_funptr), value :: compare
    type(c_ptr), intent(out) :: recorder
    integer(c_int) :: error
    error = papi_sde_create_recorder(handle, c_text(name), size_bytes, compare, recorder)
  end function

  function sde_create_counting_set(handle, name, set) result(error)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: name
    type(c_ptr), intent(out) :: set
    integer(c_int) :: error
    error = papi_sde_create_counting_set(handle, c_text(name), set)
  end function

  function sde_get_counter_handle(handle, name) result(counter)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: name
    type(c_ptr) :: counter
    counter = papi_sde_get_counter_handle(handle, c_text(name))
  end function

end module foretrace_events
