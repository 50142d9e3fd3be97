/* Layout of the file of a rank's record; tracer/mpi/record_file.py mirrors it.
 *
 * A header, then arrays in the order of the numbers in the header, without gaps: calls, steps, slots, counts (int64 each),
 * lengths of communicators (int64), their members (int64), sites, calls left out, rising tags, text. All little-endian.
 * Every element is of 8-byte numbers; the text is padded to a multiple of 8 with zeros. */
#ifndef FORETRACE_MPI_RECORD_FILE_H
#define FORETRACE_MPI_RECORD_FILE_H

#include <stdint.h>

#define FT_RECORD_MAGIC "FTRANK\r\n"
#define FT_RECORD_VERSION 2

struct ft_record_header {
    char magic[8];
    int64_t version, header_bytes;
    int64_t rank, ranks;
    int64_t calls, steps, slots, counts, communicators, members, sites, left_out, rising_tags, text_bytes;
    int64_t first_library, library_bytes; /* version of the MPI library, in the text */
    int64_t run;                          /* a number that all ranks of the run have, and no other run */
    int64_t is_complete;                  /* came to MPI_Finalize */
    double processor_s, wall_s;           /* computation; from the start of MPI to its end */
};

/* A call; `CALL` of tracer/signature/rank_records.py. */
struct ft_call_row {
    int64_t kind, communicator, peer, tag, size_bytes, second_peer, second_tag, second_bytes, request, first_slot,
        slots, first_count, site;
    int64_t times;
    double compute_s, compute_squares, least_s, most_s;
};

struct ft_step_row {
    int64_t call, times;
};

#define FT_STEP_REPEAT (-1)
#define FT_STEP_END (-2)

/* A place that calls were made from: in the file `module` at the link-time address `offset`; or, where `line` is not 0, a line of a Python
 * file, in `function`. */
struct ft_site_row {
    int64_t first_module, module_bytes, first_function, function_bytes, offset, line;
};

struct ft_left_out_row {
    int64_t first_name, name_bytes, times;
};

/* Calls with tags that rose by the same stride each time, recorded with the first of the tags: what they send (half 0),
 * or what an exchange receives (half 1). */
struct ft_rising_row {
    int64_t call, half, least, most, times;
};

#endif
