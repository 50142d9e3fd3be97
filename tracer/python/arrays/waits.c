/* Hooks what threads wait at: locks (which `threading` and `queue` make all else of), SimpleQueue (which thread pools
 * use), and the ends of threads. See tracer/transport/waits.h.
 *
 * An acquisition is tried without waiting first: only one that fails then waits. A release is an event if somebody
 * waits. A lock that a thread waits for while it has it itself is a signal: another thread is to release it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "hooks.h"
#include "waits.h"

#include "tracer/python/exchange.h"
#include "tracer/python/far.h"
#include "tracer/transport/waits.h"

#include <string.h>

#define SLOTS 4096u /* of places where threads wait */
#define PLAIN 0
#define RECURSIVE 1

typedef PyObject *(*var_kw_function)(PyObject *, PyObject *, PyObject *);
typedef PyObject *(*fast_kw_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef PyObject *(*class_function)(PyObject *, PyTypeObject *, PyObject *const *, Py_ssize_t, PyObject *);
#define AS(type, function) ((type)(void (*)(void))(function))

static struct place {
    uint32_t waiting; /* threads */
    uint32_t holder;  /* the thread that took the lock last and has not given it back; 0: not known */
    uint64_t poster;  /* where, or on whose behalf, somebody was let go on last (far.h); 0: not known */
    bool ended;       /* a thread's end has come since somebody waited for it */
} places[SLOTS];

static struct lock_type {
    var_kw_function acquire, enter;
    PyCFunction release, exit;
} lock_types[2];

static PyCFunction original_sentinel, original_join;
static fast_kw_function original_put;
static class_function original_get;
static PyObject *no_waiting; /* arguments of acquire() */

static struct place *place_of(const void *object)
{
    return &places[((uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

uint64_t waits_create(void)
{
    struct ft_cursor *cursor = agent_thread.cursor;
    const uint64_t event = cursor ? ft_next_event(cursor) : 0;
    if (cursor)
        ft_write_synchronisation(cursor, FT_SYNC_EVENT, event);
    return event;
}

void waits_thread_ends(void)
{
    struct ft_cursor *cursor = agent_thread.cursor;
    if (cursor && agent_thread.ends_at)
        ft_write_synchronisation(cursor, FT_SYNC_EVENT, ft_waits_post(cursor, agent_thread.ends_at, true));
    if (agent_thread.ends_at)
        place_of((const void *)(uintptr_t)agent_thread.ends_at)->ended = true;
}

/* Somebody who waits at an object may go on. */
static void post(PyObject *object)
{
    struct ft_cursor *cursor = agent_thread.cursor;
    if (__builtin_expect(place_of(object)->waiting == 0, 1))
        return;
    if (exchange_is_there())
        place_of(object)->poster = far_behalf();
    if (cursor)
        ft_write_synchronisation(cursor, FT_SYNC_EVENT, ft_waits_post(cursor, (uintptr_t)object, false));
}

/* A thread gives a lock back: who waits for it from now on waits for another thread. */
static void give_back(PyObject *lock)
{
    struct place *place = place_of(lock);
    if (agent_thread.cursor && place->holder == agent_thread.cursor->thread)
        place->holder = 0;
    post(lock);
}

/* This thread has waited at an object. */
static void woken(PyObject *object, bool is_lock)
{
    bool ends;
    const uint64_t poster = place_of(object)->poster;
    if (exchange_is_there()) {
        place_of(object)->poster = 0;
        if (far_woken(poster) || !agent_thread.cursor)
            return;
    }
    const uint64_t event = ft_waits_last((uintptr_t)object, &ends);
    ft_write_synchronisation(agent_thread.cursor,
                             ends      ? FT_SYNC_JOINED
                             : is_lock ? FT_SYNC_LOCKED
                                       : FT_SYNC_WOKEN,
                             event);
}

/* ---- locks ------------------------------------------------------------------------------------------------------ */

static bool may_wait(PyObject *args, PyObject *kwargs)
{
    PyObject *blocking = args && PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0)
                         : kwargs                           ? PyDict_GetItemString(kwargs, "blocking")
                                                            : NULL;
    int64_t value;
    if (!blocking || !PyLong_CheckExact(blocking))
        return !blocking || blocking == Py_True;
    return !agent_small_integer(blocking, &value) || value != 0;
}

static PyObject *acquire(var_kw_function original, PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct ft_cursor *cursor = agent_thread.cursor;
    if ((!cursor && !exchange_is_there()) || !no_waiting || !may_wait(args, kwargs))
        return original(self, args, kwargs);
    struct place *place = place_of(self);
    PyObject *result = original(self, no_waiting, NULL);
    if (cursor && result == Py_True && __builtin_expect(place->ended, 0)) {
        ft_waits_woken(cursor, (uintptr_t)self, false);
        place->ended = false;
    }
    if (result == Py_False) {
        const bool is_lock = !cursor || place->holder != cursor->thread;
        Py_DECREF(result);
        place->waiting++;
        result = original(self, args, kwargs);
        place->waiting--;
        if (result == Py_True && agent_thread.cursor == cursor)
            woken(self, is_lock);
    }
    if (result == Py_True)
        place->holder = cursor ? cursor->thread : 0;
    return result;
}

#define LOCK_HOOKS(type) \
    static PyObject *acquire_##type(PyObject *self, PyObject *args, PyObject *kwargs) \
    { return acquire(lock_types[type].acquire, self, args, kwargs); } \
    static PyObject *enter_##type(PyObject *self, PyObject *args, PyObject *kwargs) \
    { return acquire(lock_types[type].enter, self, args, kwargs); } \
    static PyObject *release_##type(PyObject *self, PyObject *args) \
    { give_back(self); return lock_types[type].release(self, args); } \
    static PyObject *exit_##type(PyObject *self, PyObject *args) \
    { give_back(self); return lock_types[type].exit(self, args); }

LOCK_HOOKS(PLAIN)
LOCK_HOOKS(RECURSIVE)

static void hook_lock(PyObject *module, const char *name, struct lock_type *type, struct lock_type hooks)
{
    const int keywords = METH_VARARGS | METH_KEYWORDS;
    PyObject *object = PyObject_GetAttrString(module, name);
    if (object && PyType_Check(object)) {
        type->acquire =
            AS(var_kw_function, agent_replace_in(object, "acquire", keywords, AS(PyCFunction, hooks.acquire)));
        type->enter =
            AS(var_kw_function, agent_replace_in(object, "__enter__", keywords, AS(PyCFunction, hooks.enter)));
        type->release = agent_replace_in(object, "release", METH_NOARGS, hooks.release);
        type->exit = agent_replace_in(object, "__exit__", METH_VARARGS, hooks.exit);
    }
    Py_XDECREF(object);
    PyErr_Clear();
}

/* ---- ends of threads -------------------------------------------------------------------------------------------- */

/* _set_sentinel(), up to CPython 3.12: the lock that is released when the calling thread ends. */
static PyObject *hooked_sentinel(PyObject *self, PyObject *args)
{
    PyObject *lock = original_sentinel(self, args);
    agent_thread.ends_at = (uintptr_t)lock;
    return lock;
}

/* _ThreadHandle.join(timeout=None), from 3.13 on. */
static PyObject *hooked_join(PyObject *self, PyObject *args)
{
    PyObject *result = original_join(self, args);
    if (result && agent_thread.cursor) /* not after a timeout: the thread has not ended then */
        ft_waits_woken(agent_thread.cursor, (uintptr_t)self, false);
    return result;
}

/* ---- queues ----------------------------------------------------------------------------------------------------- */

static PyObject *hooked_put(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    post(self);
    return original_put(self, args, n, kwnames);
}

static PyObject *hooked_get(PyObject *self, PyTypeObject *type, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    struct ft_cursor *cursor = agent_thread.cursor;
    PyObject *empty = cursor || exchange_is_there() ? PyObject_CallMethod(self, "empty", NULL) : NULL;
    const bool waits = empty == Py_True;
    PyErr_Clear();
    Py_XDECREF(empty);
    place_of(self)->waiting += waits;
    PyObject *result = original_get(self, type, args, n, kwnames);
    place_of(self)->waiting -= waits;
    if (result && waits)
        woken(self, false);
    return result;
}

void waits_module_loaded(PyObject *module)
{
    const char *name = PyModule_Check(module) ? PyModule_GetName(module) : NULL;
    PyObject *queue = name && strcmp(name, "_queue") == 0 ? PyObject_GetAttrString(module, "SimpleQueue") : NULL;
    const int keywords = METH_FASTCALL | METH_KEYWORDS;
    if (queue && !original_get) {
        original_get =
            AS(class_function, agent_replace_in(queue, "get", METH_METHOD | keywords, AS(PyCFunction, hooked_get)));
        original_put = AS(fast_kw_function, agent_replace_in(queue, "put", keywords, AS(PyCFunction, hooked_put)));
    }
    Py_XDECREF(queue);
    PyErr_Clear();
}

void waits_init(void)
{
    PyObject *module = PyImport_ImportModule("_thread");
    no_waiting = Py_BuildValue("(O)", Py_False);
    if (module) {
        hook_lock(module, "LockType", &lock_types[PLAIN],
                  (struct lock_type){acquire_PLAIN, enter_PLAIN, release_PLAIN, exit_PLAIN});
        hook_lock(module, "RLock", &lock_types[RECURSIVE],
                  (struct lock_type){acquire_RECURSIVE, enter_RECURSIVE, release_RECURSIVE, exit_RECURSIVE});
        original_sentinel = agent_replace_in(module, "_set_sentinel", METH_NOARGS, hooked_sentinel);
        PyObject *handle = PyObject_GetAttrString(module, "_ThreadHandle");
        original_join = handle ? agent_replace_in(handle, "join", METH_VARARGS, hooked_join) : NULL;
        Py_XDECREF(handle);
    }
    Py_XDECREF(module);
    PyErr_Clear();
}
