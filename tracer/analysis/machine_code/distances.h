/* How long ago the bytes of accesses were stored, and their lines touched, along a path. */
#ifndef FORETRACE_DISTANCES_H
#define FORETRACE_DISTANCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_MAX_PART_BYTES 8u /* wider accesses come in several parts */

/* Part `i` of an access is `bytes[i]` (1 .. FT_MAX_PART_BYTES) from addresses[i] on, at times[i], which ascend. Parts
 * at the same time are of one access: these do not see each other. */
struct ft_parts {
    const uint64_t *addresses;
    const uint8_t *bytes, *is_store;
    const int64_t *times;
    size_t number;
};

/* Writes, at the time of each access, how long ago the last store to any of its bytes was, and how long ago the 64-byte
 * line where it begins was touched last; 0 where that is not so, or more than UINT16_MAX ago. Bytes are told apart as
 * far as the narrowest part does, so that neighbours in an array of small elements are not one place. False when memory
 * ran out. */
bool ft_distances(const struct ft_parts *parts, uint16_t *stores, uint16_t *lines);

#endif
