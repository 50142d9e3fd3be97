/* Wrappers of MPI-IO. Recorded are reads and writes, blocking or not, with the bytes that the rank asks for. */
#include "recorder.h"

static void transfer(enum ft_call_kind kind, MPI_File file, int64_t count, MPI_Datatype type)
{
    const struct ft_communicator *among = ft_communicator_of_file(file);
    if (!among) {
        ft_left_out_because("of a file that was not recorded");
        return;
    }
    struct ft_call_row call = {
        .kind = kind, .communicator = among->number, .peer = -1, .size_bytes = ft_bytes(count, type)};
    ft_record(&call);
}

FT_RECORDED(File_open, (MPI_Comm communicator, const char *name, int mode, MPI_Info info, MPI_File *file),
            (communicator, name, mode, info, file), ft_left_out("MPI_File_open");
            ft_file_opened(*file, communicator);)

FT_WRAPPER(File_close, (MPI_File * file))
{
    FT_OPEN(File_close, (file))
    const MPI_File closed = *file;
    const int result = FT_PASS(File_close, (file));
    ft_file_closed(closed);
    ft_left_out("MPI_File_close");
    ft_leave();
    return result;
}

/* Calls at the file's own position, at one that is given (`_at`), and the begin of split collective ones. */
#define HERE(name, buffer_type, kind)                                                                              \
    FT_RECORDED(name, (MPI_File file, buffer_type buffer, COUNT count, MPI_Datatype type, MPI_Status *status),       \
                (file, buffer, count, type, status), transfer(kind, file, count, type);)
#define AT(name, buffer_type, kind)                                                                                \
    FT_RECORDED(name,                                                                                              \
                (MPI_File file, MPI_Offset place, buffer_type buffer, COUNT count, MPI_Datatype type,                \
                 MPI_Status *status),                                                                              \
                (file, place, buffer, count, type, status), transfer(kind, file, count, type);)
#define LATER(name, buffer_type, kind)                                                                             \
    FT_RECORDED(name, (MPI_File file, buffer_type buffer, COUNT count, MPI_Datatype type, MPI_Request *request),     \
                (file, buffer, count, type, request), transfer(kind, file, count, type);                           \
                ft_requests_open(FT_HANDLE(*request), false);)
#define LATER_AT(name, buffer_type, kind)                                                                          \
    FT_RECORDED(name,                                                                                              \
                (MPI_File file, MPI_Offset place, buffer_type buffer, COUNT count, MPI_Datatype type,                \
                 MPI_Request *request),                                                                            \
                (file, place, buffer, count, type, request), transfer(kind, file, count, type);                    \
                ft_requests_open(FT_HANDLE(*request), false);)
#define BEGUN(name, buffer_type, kind)                                                                             \
    FT_RECORDED(name, (MPI_File file, buffer_type buffer, COUNT count, MPI_Datatype type), (file, buffer, count, type), \
                transfer(kind, file, count, type);)
#define BEGUN_AT(name, buffer_type, kind)                                                                          \
    FT_RECORDED(name, (MPI_File file, MPI_Offset place, buffer_type buffer, COUNT count, MPI_Datatype type),         \
                (file, place, buffer, count, type), transfer(kind, file, count, type);)

#define ENDED(name, buffer_type) \
    FT_COUNTED(name, (MPI_File file, buffer_type buffer, MPI_Status *status), (file, buffer, status))
ENDED(File_read_all_end, void *)
ENDED(File_read_ordered_end, void *)
ENDED(File_read_at_all_end, void *)
ENDED(File_write_all_end, const void *)
ENDED(File_write_ordered_end, const void *)
ENDED(File_write_at_all_end, const void *)

FT_COUNTED(File_sync, (MPI_File file), (file))
FT_COUNTED(File_set_view,
           (MPI_File file, MPI_Offset place, MPI_Datatype type, MPI_Datatype file_type, const char *representation,
            MPI_Info info),
           (file, place, type, file_type, representation, info))
FT_COUNTED(File_set_size, (MPI_File file, MPI_Offset bytes), (file, bytes))
FT_COUNTED(File_preallocate, (MPI_File file, MPI_Offset bytes), (file, bytes))

#define COUNT int
#define PLACE int
#define NAMED(name) name
#include "file_wrappers.h"
#if MPI_VERSION >= 4
#undef COUNT
#undef PLACE
#undef NAMED
#define COUNT MPI_Count
#define PLACE MPI_Aint
#define NAMED(name) name##_c
#include "file_wrappers.h"
#endif
