/* Store-exclusive instructions: the second half of an atomic update in two instructions.
 *
 * QEMU carries them out by a compare-and-swap and shows its load as the program's. The program's only store.
 */
#ifndef FORETRACE_STORE_EXCLUSIVE_H
#define FORETRACE_STORE_EXCLUSIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether an instruction of `target` (QEMU's name of an architecture) is one. */
static inline bool ft_is_store_exclusive(const char *target, const unsigned char *code, size_t length)
{
    uint32_t word;
    if (length != sizeof word)
        return false;
    memcpy(&word, code, sizeof word);
    if (strcmp(target, "aarch64") == 0) /* Arm DDI 0487, C4.1.93: STXR, STLXR and their kin; STXP, STLXP */
        return (word & 0x3fe00000) == 0x08000000 || (word & 0xbfe00000) == 0x88200000;
    if (strcmp(target, "riscv64") == 0) /* Unprivileged Architecture, "A" extension: SC.W, SC.D */
        return (word & 0xf800607f) == 0x1800202f;
    return false;
}

#endif
