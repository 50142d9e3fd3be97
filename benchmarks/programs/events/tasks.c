/* One lock guards the queue of ready tasks and the graph of dependences; tasks run without it. */
#include "tasks.h"

#include <pthread.h>
#include <stdlib.h>

struct task {
    void (*work)(void *argument);
    void *argument;
    size_t num_awaited; /* tasks that must end before it is ready */
    bool has_ended;
    struct task_list awaiting; /* tasks that wait for it */
    struct task *next_ready, *next_made;
};

struct runtime {
    pthread_mutex_t lock;
    pthread_cond_t has_changed; /* a task is ready, or no more will come */
    struct task *first_ready, **last_ready;
    struct task *made; /* all of them, to be freed */
    size_t num_unfinished;
    bool is_finishing;
    int num_threads;
    pthread_t threads[];
};

/* ---- lists -------------------------------------------------------------------------------------------------------- */

/* False: there is no memory. */
static bool append(struct task_list *list, struct task *task)
{
    if (list->length == list->room) {
        const size_t room = list->room ? 2 * list->room : 4;
        struct task **grown = realloc(list->tasks, room * sizeof *grown);
        if (!grown)
            return false;
        list->tasks = grown;
        list->room = room;
    }
    list->tasks[list->length++] = task;
    return true;
}

void datum_free(struct datum *datum)
{
    free(datum->readers.tasks);
    *datum = (struct datum){0};
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

/* With the lock. */
static void make_ready(struct runtime *runtime, struct task *task)
{
    *runtime->last_ready = task;
    runtime->last_ready = &task->next_ready;
    pthread_cond_signal(&runtime->has_changed);
}

/* The next task that is ready, with the lock. NULL: no more will come. */
static struct task *next_ready(struct runtime *runtime)
{
    while (!runtime->first_ready && !(runtime->is_finishing && runtime->num_unfinished == 0))
        pthread_cond_wait(&runtime->has_changed, &runtime->lock);
    struct task *task = runtime->first_ready;
    if (task) {
        runtime->first_ready = task->next_ready;
        if (!runtime->first_ready)
            runtime->last_ready = &runtime->first_ready;
    }
    return task;
}

/* With the lock. */
static void end(struct runtime *runtime, struct task *task)
{
    task->has_ended = true;
    for (size_t i = 0; i < task->awaiting.length; i++)
        if (--task->awaiting.tasks[i]->num_awaited == 0)
            make_ready(runtime, task->awaiting.tasks[i]);
    if (--runtime->num_unfinished == 0)
        pthread_cond_broadcast(&runtime->has_changed);
}

static void *run_tasks(void *argument)
{
    struct runtime *runtime = argument;
    struct task *task;
    pthread_mutex_lock(&runtime->lock);
    while ((task = next_ready(runtime))) {
        pthread_mutex_unlock(&runtime->lock);
        task->work(task->argument);
        pthread_mutex_lock(&runtime->lock);
        end(runtime, task);
    }
    pthread_mutex_unlock(&runtime->lock);
    return NULL;
}

struct runtime *tasks_begin(int num_threads)
{
    struct runtime *runtime = calloc(1, sizeof *runtime + (size_t)num_threads * sizeof runtime->threads[0]);
    if (!runtime)
        return NULL;
    runtime->last_ready = &runtime->first_ready;
    pthread_mutex_init(&runtime->lock, NULL);
    pthread_cond_init(&runtime->has_changed, NULL);
    while (runtime->num_threads < num_threads &&
           pthread_create(&runtime->threads[runtime->num_threads], NULL, run_tasks, runtime) == 0)
        runtime->num_threads++;
    if (runtime->num_threads > 0)
        return runtime;
    tasks_finish(runtime);
    return NULL;
}

void tasks_finish(struct runtime *runtime)
{
    pthread_mutex_lock(&runtime->lock);
    runtime->is_finishing = true;
    pthread_cond_broadcast(&runtime->has_changed);
    pthread_mutex_unlock(&runtime->lock);
    for (int i = 0; i < runtime->num_threads; i++)
        pthread_join(runtime->threads[i], NULL);
    while (runtime->made) {
        struct task *task = runtime->made;
        runtime->made = task->next_made;
        free(task->awaiting.tasks);
        free(task);
    }
    pthread_cond_destroy(&runtime->has_changed);
    pthread_mutex_destroy(&runtime->lock);
    free(runtime);
}

/* ---- dependences -------------------------------------------------------------------------------------------------- */

/* `task` waits for `earlier`, if that has not ended. False: there is no memory. */
static bool await(struct task *task, struct task *earlier)
{
    if (!earlier || earlier->has_ended)
        return true;
    if (!append(&earlier->awaiting, task))
        return false;
    task->num_awaited++;
    return true;
}

static bool link(struct task *task, struct datum *const *reads, size_t num_reads, struct datum *updates)
{
    bool is_linked = await(task, updates->last_update);
    for (size_t i = 0; is_linked && i < updates->readers.length; i++)
        is_linked = await(task, updates->readers.tasks[i]);
    updates->readers.length = 0;
    for (size_t i = 0; is_linked && i < num_reads; i++)
        is_linked = await(task, reads[i]->last_update) && append(&reads[i]->readers, task);
    updates->last_update = task;
    return is_linked;
}

static void do_nothing(void *argument)
{
    (void)argument;
}

bool tasks_submit(
    struct runtime *runtime, void (*work)(void *argument), void *argument, struct datum *const *reads, size_t num_reads,
    struct datum *updates)
{
    struct task *task = calloc(1, sizeof *task);
    if (!task)
        return false;
    pthread_mutex_lock(&runtime->lock);
    task->next_made = runtime->made;
    runtime->made = task;
    runtime->num_unfinished++;
    const bool is_linked = link(task, reads, num_reads, updates);
    task->work = is_linked ? work : do_nothing; /* those that wait for it go on */
    task->argument = argument;
    if (task->num_awaited == 0)
        make_ready(runtime, task);
    pthread_mutex_unlock(&runtime->lock);
    return is_linked;
}
