/* The recorder of one rank: what wrappers of MPI's calls share.
 *
 * A wrapper calls ft_enter(); if that says no, it only passes the call on. Else it may record what the call does, with
 * the functions below, and calls ft_leave() last. Calls that the library makes of its own functions while it works are
 * passed on. Only the thread that initialised MPI is recorded; calls of others are counted. */
#ifndef FORETRACE_MPI_RECORDER_H
#define FORETRACE_MPI_RECORDER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(OPEN_MPI) && !defined(MPICH_VERSION)
#error "neither Open MPI nor MPICH"
#endif

#include "../kinds.h"
#include "calls.h"
#include "communicators.h"
#include "requests.h"

#define FT_HANDLE(handle) ((uint64_t)(uintptr_t)(handle))

/* Enter the wrapper of `name`, with its return address and frame; whether its call is the program's and to be recorded.
 */
bool ft_enter(const char *name, const void *returns_to, const void *frame);

/* Leave a wrapper that ft_enter let in. */
void ft_leave(void);

/* The program is about to initialise MPI. */
void ft_before(void);

/* Begin to record: MPI is initialised. */
void ft_begin(void);

/* Write the record: the rank came to MPI_Finalize, or ends without. */
void ft_end(bool is_complete);

/* A call that cannot be recorded, by its name, or as the one that ft_enter was called for and why. Both texts must
 * stay. */
void ft_left_out(const char *name);
void ft_left_out_because(const char *why);

/* Record a call from the place that ft_enter was called for; with the counts of each rank, or the slots of the requests
 * that it completes. */
void ft_record(struct ft_call_row *call);
void ft_record_counts(struct ft_call_row *call, const int64_t *counts, int64_t length);
void ft_record_slots(struct ft_call_row *call, const int64_t *slots, int64_t length);

/* Record a call that occupies a slot until its request is complete. */
void ft_record_request(struct ft_call_row *call, const int64_t *counts, int64_t length, MPI_Request request);

/* Room for numbers, until the next call; NULL without memory. */
int64_t *ft_scratch(int64_t length);

/* Size in bytes of elements of a type. */
int64_t ft_bytes(int64_t count, MPI_Datatype type);

/* The function of the MPI library itself. */
void *ft_real(const char *name);

#define FT_NAME(name) FT_NAME_(name)
#define FT_NAME_(name) "MPI_" #name

#define FT_EXPORT __attribute__((visibility("default")))

/* Head of the wrapper MPI_name, which is also PMPI_name. */
#define FT_WRAPPER(name, parameters) FT_WRAPPER_(name, parameters)
#define FT_WRAPPER_(name, parameters)                                          \
    FT_EXPORT int PMPI_##name parameters __attribute__((alias("MPI_" #name))); \
    FT_EXPORT int MPI_##name parameters

/* A whole wrapper: `...` are statements that record the call after it has been carried out. */
#define FT_RECORDED(name, parameters, arguments, ...) FT_RECORDED_(name, parameters, arguments, __VA_ARGS__)
#define FT_RECORDED_(name, parameters, arguments, ...)        \
    FT_WRAPPER(name, parameters)                             \
    {                                                        \
        FT_OPEN(name, arguments)                             \
        const int result = FT_PASS(name, arguments);         \
        if (result == MPI_SUCCESS) {                         \
            __VA_ARGS__                                      \
        } else                                               \
            ft_left_out("MPI_" #name " (failed)");           \
        ft_leave();                                          \
        return result;                                       \
    }

/* First statement of a wrapper. */
#define FT_OPEN(name, arguments) FT_OPEN_(name, arguments)
#define FT_OPEN_(name, arguments)                             \
    static int (*real)();                                    \
    if (__builtin_expect(!real, 0))                          \
        *(void **)&real = ft_real("PMPI_" #name);            \
    if (!ft_enter("MPI_" #name, __builtin_return_address(0), __builtin_frame_address(0))) \
        return FT_PASS(name, arguments);
#define FT_PASS(name, arguments) FT_PASS_(name, arguments)
#define FT_PASS_(name, arguments) ((__typeof__(&MPI_##name))real)arguments

/* A wrapper of a call that is counted, not recorded. */
#define FT_COUNTED(name, parameters, arguments) FT_COUNTED_(name, parameters, arguments)
#define FT_COUNTED_(name, parameters, arguments) \
    FT_RECORDED(name, parameters, arguments, ft_left_out("MPI_" #name);)

#endif
