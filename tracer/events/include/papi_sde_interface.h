/* The spellings of the article on software-defined events, and of PAPI before 7.0.
 *
 * A recorder may be made without a comparison function, and values and handles need no casts.
 */
#ifndef FORETRACE_PAPI_SDE_INTERFACE_H
#define FORETRACE_PAPI_SDE_INTERFACE_H

#include "foretrace_events.h"

#define FT_SDE_SIXTH(first, second, third, fourth, fifth, sixth, ...) sixth
#define FT_SDE_WITH_COMPARISON(handle, name, size, compare, record_handle) \
    (papi_sde_create_recorder)(handle, name, size, compare, (void **)(record_handle))
#define FT_SDE_WITHOUT_COMPARISON(handle, name, size, record_handle) \
    (papi_sde_create_recorder)(handle, name, size, NULL, (void **)(record_handle))
#define papi_sde_create_recorder(...) \
    FT_SDE_SIXTH(__VA_ARGS__, FT_SDE_WITH_COMPARISON, FT_SDE_WITHOUT_COMPARISON, , )(__VA_ARGS__)

#define papi_sde_create_counter(handle, name, mode, counter_handle) \
    (papi_sde_create_counter)(handle, name, mode, (void **)(counter_handle))

#endif
