/* Software-defined events: a library says what it does, and tools read it.
 *
 * The interface is the one of PAPI's libsde (sde_lib.h, version 1.0): a program compiled against either header runs
 * with either library. Jagode, Danalis, Anzt and Dongarra, "PAPI software-defined events for in-depth performance
 * analysis", 2019, describes what it is for.
 *
 *     papi_handle_t library = papi_sde_init("solver");
 *     papi_sde_register_counter(library, "iterations", PAPI_SDE_RO | PAPI_SDE_INSTANT, PAPI_SDE_long_long, &iterations);
 *
 * All functions may be called from several threads at once, none from signal handlers. They return SDE_OK or one of the
 * error codes below, and never end the program.
 */
#ifndef FORETRACE_EVENTS_H
#define FORETRACE_EVENTS_H

/* PAPI's own header has the same guard: whichever comes first stands for both. */
#ifndef PAPI_SDE_LIB_H
#define PAPI_SDE_LIB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAPI_SDE_VERSION_NUMBER(major, minor) (((major) << 16) | (minor))
#define PAPI_SDE_VERSION PAPI_SDE_VERSION_NUMBER(1, 0)

/* Modes: one of each pair, added. */
#define PAPI_SDE_RO 0x00      /* tools read it */
#define PAPI_SDE_RW 0x01      /* tools may write it, too */
#define PAPI_SDE_DELTA 0x00   /* read: the change since the event set was started */
#define PAPI_SDE_INSTANT 0x10 /* read: the value */

/* Types of counters. Integers are read as long long, floating-point numbers as the bits of a double. */
#define PAPI_SDE_long_long 0x0
#define PAPI_SDE_int 0x1
#define PAPI_SDE_double 0x2
#define PAPI_SDE_float 0x3

/* What the value of a group is, of its members'. */
#define PAPI_SDE_SUM 0x0
#define PAPI_SDE_MAX 0x1
#define PAPI_SDE_MIN 0x2

/* Error codes, with PAPI's values. */
#define SDE_OK 0
#define SDE_EINVAL (-1)  /* an argument is wrong */
#define SDE_ENOMEM (-2)  /* no memory */
#define SDE_ECMP (-4)    /* the event does not support that */
#define SDE_ENOEVNT (-7) /* there is no such event */

/* Calls that are made often are bound when the program starts: the first one takes no longer than others. */
#ifdef __has_attribute
#if __has_attribute(noplt)
#define FORETRACE_BOUND_EARLY __attribute__((noplt))
#endif
#endif
#ifndef FORETRACE_BOUND_EARLY
#define FORETRACE_BOUND_EARLY
#endif

typedef void *papi_handle_t;
typedef long long int (*papi_sde_fptr_t)(void *);
typedef int (*papi_sde_cmpr_fptr_t)(void *);

/* What reading a counting set gives: a list that the reader frees, both elements and nodes. */
typedef struct cset_list_object_s cset_list_object_t;
struct cset_list_object_s {
    uint32_t count;
    uint32_t type_id;
    size_t type_size;
    void *ptr;
    cset_list_object_t *next;
};

/* The handle of a library; the same one whenever it is asked for by the same name. */
papi_handle_t papi_sde_init(const char *name_of_library);

/* Ends all events of a library, and the handle. */
int papi_sde_shutdown(papi_handle_t handle);

/* An event whose value is the variable `counter`, of a PAPI_SDE_* type. The variable must live until the event is
 * unregistered: tools read it at the end of the process, too. A second event of the same name is ignored. */
int papi_sde_register_counter(papi_handle_t handle, const char *event_name, int cntr_mode, int cntr_type,
                              void *counter);

/* An event whose value is what `callback(param)` returns when it is read. */
int papi_sde_register_counter_cb(papi_handle_t handle, const char *event_name, int cntr_mode, int cntr_type,
                                 papi_sde_fptr_t callback, void *param);

int papi_sde_unregister_counter(void *handle, const char *event_name);
int papi_sde_describe_counter(papi_handle_t handle, const char *event_name, const char *event_description);

/* Adds an event to a group, which is made with its first member, and is an event like others. */
int papi_sde_add_counter_to_group(papi_handle_t handle, const char *event_name, const char *group_name,
                                  uint32_t group_flags);

/* A counter in the library's memory: each thread adds to a place of its own. */
int papi_sde_create_counter(papi_handle_t handle, const char *event_name, int cntr_mode, void **cntr_handle);
FORETRACE_BOUND_EARLY int papi_sde_inc_counter(void *cntr_handle, long long int increment);
int papi_sde_reset_counter(void *cntr_handle);

/* A recorder of values of `typesize` bytes. `event_name:CNT` is their number; with a comparison function as of qsort,
 * `event_name:MIN`, `:Q1`, `:MED`, `:Q3` and `:MAX` are pointers to copies of values, which the reader frees. The
 * recorder itself is read as a pointer to a copy of all values: those of a thread in their order, one thread after the
 * other. */
int papi_sde_create_recorder(papi_handle_t handle, const char *event_name, size_t typesize,
                             int (*cmpr_func_ptr)(const void *p1, const void *p2), void **record_handle);
FORETRACE_BOUND_EARLY int papi_sde_record(void *record_handle, size_t typesize, const void *value);
int papi_sde_reset_recorder(void *record_handle);

/* A set that counts how often each element is in it. Elements are the same if `type_id` and their first `hashable_size`
 * bytes are. */
int papi_sde_create_counting_set(papi_handle_t handle, const char *cset_name, void **cset_handle);
int papi_sde_counting_set_insert(void *cset_handle, size_t element_size, size_t hashable_size, const void *element,
                                 uint32_t type_id);
int papi_sde_counting_set_remove(void *cset_handle, size_t hashable_size, const void *element, uint32_t type_id);

/* The handle of a created counter, recorder or counting set. NULL: there is none of that name. */
void *papi_sde_get_counter_handle(papi_handle_t handle, const char *event_name);

int papi_sde_compare_long_long(const void *p1, const void *p2);
int papi_sde_compare_int(const void *p1, const void *p2);
int papi_sde_compare_double(const void *p1, const void *p2);
int papi_sde_compare_float(const void *p1, const void *p2);

#define register_fp_counter register_counter_cb
#define papi_sde_register_fp_counter papi_sde_register_counter_cb
#define destroy_counter unregister_counter
#define destroy_counting_set unregister_counter
#define papi_sde_destroy_counter papi_sde_unregister_counter
#define papi_sde_destroy_counting_set papi_sde_unregister_counter

/* All of the above, for papi_sde_hook_list_events: a library defines that function, and tools call it to list what it
 * would register, without running it. */
typedef struct papi_sde_fptr_struct_s {
    papi_handle_t (*init)(const char *lib_name);
    int (*shutdown)(papi_handle_t handle);
    int (*register_counter)(papi_handle_t handle, const char *event_name, int mode, int type, void *counter);
    int (*register_counter_cb)(papi_handle_t handle, const char *event_name, int mode, int type,
                               papi_sde_fptr_t callback, void *param);
    int (*unregister_counter)(papi_handle_t handle, const char *event_name);
    int (*describe_counter)(papi_handle_t handle, const char *event_name, const char *event_description);
    int (*add_counter_to_group)(papi_handle_t handle, const char *event_name, const char *group_name,
                                uint32_t group_flags);
    int (*create_counter)(papi_handle_t handle, const char *event_name, int cntr_type, void **cntr_handle);
    int (*inc_counter)(papi_handle_t cntr_handle, long long int increment);
    int (*create_recorder)(papi_handle_t handle, const char *event_name, size_t typesize,
                           int (*cmpr_func_ptr)(const void *p1, const void *p2), void **record_handle);
    int (*create_counting_set)(papi_handle_t handle, const char *cset_name, void **cset_handle);
    int (*counting_set_insert)(void *cset_handle, size_t element_size, size_t hashable_size, const void *element,
                               uint32_t type_id);
    int (*counting_set_remove)(void *cset_handle, size_t hashable_size, const void *element, uint32_t type_id);
    int (*record)(void *record_handle, size_t typesize, const void *value);
    int (*reset_recorder)(void *record_handle);
    int (*reset_counter)(void *cntr_handle);
    void *(*get_counter_handle)(papi_handle_t handle, const char *event_name);
} papi_sde_fptr_struct_t;

papi_handle_t papi_sde_hook_list_events(papi_sde_fptr_struct_t *fptr_struct);

#define POPULATE_SDE_FPTR_STRUCT(functions)                              \
    do {                                                                 \
        functions.init = papi_sde_init;                                  \
        functions.shutdown = papi_sde_shutdown;                          \
        functions.register_counter = papi_sde_register_counter;          \
        functions.register_counter_cb = papi_sde_register_counter_cb;    \
        functions.unregister_counter = papi_sde_unregister_counter;      \
        functions.describe_counter = papi_sde_describe_counter;          \
        functions.add_counter_to_group = papi_sde_add_counter_to_group;  \
        functions.create_counter = papi_sde_create_counter;              \
        functions.inc_counter = papi_sde_inc_counter;                    \
        functions.create_recorder = papi_sde_create_recorder;            \
        functions.create_counting_set = papi_sde_create_counting_set;    \
        functions.counting_set_insert = papi_sde_counting_set_insert;    \
        functions.counting_set_remove = papi_sde_counting_set_remove;    \
        functions.record = papi_sde_record;                              \
        functions.reset_recorder = papi_sde_reset_recorder;              \
        functions.reset_counter = papi_sde_reset_counter;                \
        functions.get_counter_handle = papi_sde_get_counter_handle;      \
    } while (0)

/* What a value read of a floating-point counter, or of a recorder, is. */
#define GET_FLOAT_SDE(x) *((float *)&x)
#define GET_DOUBLE_SDE(x) *((double *)&x)
#define GET_SDE_RECORDER_ADDRESS(x, rcrd_type) ((rcrd_type *)x)

#ifdef __cplusplus
}
#endif

#endif /* PAPI_SDE_LIB_H */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading in the program, as with PAPI's event sets ------------------------------------------------------------ */

struct foretrace_event_set;

/* A set of events by their names, `library::event`. An event that is not registered yet reads -1 until it is.
 * NULL: no memory, or a name that is none. */
struct foretrace_event_set *foretrace_events_open(const char *const *names, size_t num_names);

/* From here on, events in delta mode count. */
int foretrace_events_start(struct foretrace_event_set *set);

/* The values now, [num_names]. SDE_EINVAL: not started. */
int foretrace_events_read(struct foretrace_event_set *set, long long *values);

/* The same, and ends counting. */
int foretrace_events_stop(struct foretrace_event_set *set, long long *values);

/* Starts counting anew: events in delta mode are 0 again. */
int foretrace_events_reset(struct foretrace_event_set *set);

/* The type of what is read of event `number` of a set: PAPI_SDE_long_long, ... Added to it are FORETRACE_POINTER, where
 * a pointer to such a value is read, and FORETRACE_NO_TYPE, where it points to anything else. SDE_ENOEVNT: there is no
 * such event, or not yet. */
#define FORETRACE_POINTER 0x100
#define FORETRACE_NO_TYPE 0xff
int foretrace_events_type(const struct foretrace_event_set *set, size_t number);

/* A copy of all values of the recorder `library::event`, which the caller frees, and their number. SDE_EINVAL: it is no
 * recorder. */
int foretrace_events_values(const char *event_name, void **values, size_t *num_values);

/* Frees a set. */
void foretrace_events_close(struct foretrace_event_set *set);

/* If the values of events are kept when the process ends, calls each callback for the last time. For interpreters,
 * whose functions cannot be called any more when the process exits. */
void foretrace_events_end_callbacks(void);

#ifdef __cplusplus
}
#endif

#endif
