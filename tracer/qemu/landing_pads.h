/* Landing pads: where exceptions continue that leave a call. The traced program's unwinding tables tell them, as they
 * tell its own unwinder: C++, Rust, Ada, D and C's cleanups have the same. */
#ifndef FORETRACE_LANDING_PADS_H
#define FORETRACE_LANDING_PADS_H

#include <stddef.h>
#include <stdint.h>

/* The memory map is now this text (of /proc/self/maps, `bytes` long). */
void ft_landing_pads_mapped(const char *maps, size_t bytes);

/* Where an exception continues that leaves the call which returns to an address (both of the traced program, whose
 * address 0 is `guest_base` of this process). 0: nowhere in this function, or not known. */
uint64_t ft_landing_pad(uint64_t behind, uint64_t guest_base);

#endif
