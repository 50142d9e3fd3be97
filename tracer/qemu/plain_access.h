/* Instructions of which it is known, before they run, what they access.
 *
 * A plain access is made exactly once each time the instruction runs, has a kind and a size that its code tells, and is
 * translated by QEMU without a call to a helper of its own. Most loads and stores of compiled programs are plain;
 * whatever is not recognised counts as unknown, which costs time and nothing else.
 */
#ifndef FORETRACE_PLAIN_ACCESS_H
#define FORETRACE_PLAIN_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

struct ft_plain_access {
    bool is_store;
    unsigned size_shift; /* log2 of the size in bytes */
};

enum ft_accesses {
    FT_ACCESSES_UNKNOWN, /* it may access memory in any way */
    FT_ACCESSES_NONE,
    FT_ACCESSES_PLAIN /* and `access` is filled in */
};

typedef enum ft_accesses ft_accesses_of(const unsigned char *code, size_t length, struct ft_plain_access *access);

/* By QEMU's name of the architecture. Knows nothing of instructions of one that it does not know. */
ft_accesses_of *ft_accesses_on(const char *target_name);

#endif
