/* A small task runtime: threads that run tasks in the order of their data dependences.
 *
 * A task reads data and updates one datum. It waits for the earlier tasks that update what it reads, and for those that read
 * or update what it updates. Any number of threads gives the result of running the tasks in the order of their submission.
 */
#ifndef TASKS_H
#define TASKS_H

#include <stdbool.h>
#include <stddef.h>

struct task;
struct runtime;

/* A list of tasks that grows. */
struct task_list {
    struct task **tasks;
    size_t length, room;
};

/* Something that tasks read or update; all zero at first. It belongs to the runtime until tasks_finish. */
struct datum {
    struct task *last_update;
    struct task_list readers; /* since the last update */
};

/* NULL: there is no memory, or not one thread could be started. */
struct runtime *tasks_begin(int num_threads);

/* Runs `work(argument)` on a thread as soon as the data allow it. False: there is no memory, and it will not run. */
bool tasks_submit(
    struct runtime *runtime, void (*work)(void *argument), void *argument, struct datum *const *reads, size_t num_reads,
    struct datum *updates);

/* Waits until all tasks have run, and frees the runtime. Tasks are submitted by the thread that finishes it. */
void tasks_finish(struct runtime *runtime);

/* Frees what the runtime allocated for a datum, after tasks_finish. */
void datum_free(struct datum *datum);

#endif
