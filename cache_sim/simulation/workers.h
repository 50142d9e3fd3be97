/* Hands one stream of accesses to any number of simulators, each with a thread of its own behind the producer's. */
#ifndef FORETRACE_WORKERS_H
#define FORETRACE_WORKERS_H

#include "access.h"

#define FT_JOB_ACCESSES 4096u
#define FT_JOB_ARRAYS 16u
#define FT_JOB_INDEX (2 * FT_ARRAY_RUN_INDEX)

/* An array operation, after the first `position` accesses of its job. */
struct ft_job_array {
    size_t position;
    struct ft_array_run run;
};

#define FT_JOB_REPEATS 512u

struct ft_job {
    uint32_t thread;        /* whose accesses these are, for simulators that care */
    size_t num_operations;  /* their operations are below this number */
    uint64_t filtered_from; /* `accesses` is what changes anything in so many; 0: it is all */
    size_t length;
    struct ft_access accesses[FT_JOB_ACCESSES];
    size_t num_arrays, num_index;
    struct ft_job_array arrays[FT_JOB_ARRAYS];
    uint64_t index[FT_JOB_INDEX];
    size_t num_repeats;
    struct ft_repeat repeats[FT_JOB_REPEATS];
};

/* Returns 0, or -1 when memory ran out: the simulator then gets no further jobs. */
typedef int ft_simulate(void *simulator, const struct ft_job *job);

struct ft_workers;

/* NULL when memory ran out. The simulators remain the caller's, who frees them after the workers. */
struct ft_workers *ft_workers_new(ft_simulate *simulate, void *const *simulators, size_t num_simulators);
void ft_workers_free(struct ft_workers *workers);

/* The functions below are for one thread at a time. The job being filled, with room for `length` accesses; what is in
 * it stays there until the next call, what it says of itself is the caller's to keep, as is `thread`, which the next
 * job takes over. */
struct ft_job *ft_workers_job(struct ft_workers *workers, size_t length);

/* Appends accesses to the job being filled, and to those that follow. */
void ft_workers_feed(struct ft_workers *workers, const struct ft_access *batch, size_t length, size_t num_operations);

/* Whether a job has room for an array operation; and appends one to the job being filled, or to the next. */
bool ft_workers_take_array(const struct ft_job *job, const struct ft_array_run *run);
void ft_workers_feed_array(struct ft_workers *workers, const struct ft_array_run *run, size_t num_operations);

/* Gets the job being filled simulated, now or later, and begins an empty one. Returns how many were handed over. */
unsigned ft_workers_hand_over(struct ft_workers *workers);

/* Waits until as many jobs are simulated as had been handed over when ft_workers_hand_over returned `handed`. */
void ft_workers_wait(struct ft_workers *workers, unsigned handed);

/* Waits until all jobs are simulated. Returns 0, or -1 when memory ran out for one of the simulators. */
int ft_workers_drain(struct ft_workers *workers);

#endif
