/* Open requests: which slot each occupies. Slots are numbered from 1, and the lowest free one is taken, so that
 * iterations that are alike use the same.
 *
 * An MPI library may give several requests the same handle where they are complete at once: of these the oldest is
 * found first. */
#ifndef FORETRACE_MPI_REQUESTS_H
#define FORETRACE_MPI_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "record_file.h"

/* A persistent request: what each start of it records; `slot` is that of the one under way. */
struct ft_persistent {
    struct ft_call_row call;
    int64_t slot;
    bool is_message; /* not to or from MPI_PROC_NULL, and on a communicator that is recorded */
};

/* The slot that the next request takes. */
int64_t ft_requests_next_slot(void);

/* A new request takes that slot, or none (not a message). False without memory. */
bool ft_requests_open(uint64_t handle, bool takes_slot);

/* Register a persistent request, which is not under way. */
struct ft_persistent *ft_requests_add_persistent(uint64_t handle);

/* The persistent request with a handle, or NULL. */
struct ft_persistent *ft_requests_persistent(uint64_t handle);

/* A started persistent request takes the next slot. */
void ft_requests_start(struct ft_persistent *persistent);

/* A request is complete: its slot, which is free then; 0: it has none; -1: no such request. */
int64_t ft_requests_complete(uint64_t handle);

/* A request is given up: of a persistent one nothing remains. Its slot as by ft_requests_complete. */
int64_t ft_requests_free(uint64_t handle);

#endif
