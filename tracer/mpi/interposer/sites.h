/* Places in the program that calls are made from. */
#ifndef FORETRACE_MPI_SITES_H
#define FORETRACE_MPI_SITES_H

#include <stdint.h>

#include "record_file.h"

/* What was found so far, for the writer. Texts are behind one another, without NUL. */
struct ft_sites {
    struct ft_site_row *rows;
    int64_t length;
    char *text;
    int64_t text_bytes;
};
extern struct ft_sites ft_sites;

/* The site of a call that returns to `address`, made from the frame at `frame` (__builtin_frame_address(0) of the
 * wrapper). If that address is the MPI library's own, as it is for its Fortran and C++ bindings: the nearest one outside.
 */
int64_t ft_site_of(const void *address, const void *frame);

#endif
