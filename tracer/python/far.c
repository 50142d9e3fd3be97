/* See far.h. Objects are told apart by what all processes see alike: a pipe by its inode, the two ends of a socket pair
 * by theirs, a semaphore by its name, or its address.
 *
 * A write to a pipe is a post, a read takes one: each message that has been written, and read in whatever number of
 * pieces, is one edge. A semaphore is tried without waiting first; only where that fails is it an edge, as with locks
 * of threads.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/python/arrays/hooks.h"
#include "exchange.h"
#include "far.h"

#include <string.h>
#include <sys/stat.h>

#define AS(type, function) ((type)(void (*)(void))(function))

typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_kw_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static PyCFunction original_read, original_write, original_pair, original_release, original_exit, original_enter;
static PyCFunction original_acquire;

/* ---- places ----------------------------------------------------------------------------------------------------- */

static uint64_t place(uint32_t block)
{
    const struct ft_header *header = ft_writer_header();
    const uint32_t process = header ? header->request.process : 0,
                   thread = agent_thread.cursor ? agent_thread.cursor->thread : 0;
    if (!thread || thread > FT_FAR_MAX_THREAD || process > FT_FAR_MAX_PROCESS)
        return 0;
    return (uint64_t)process << FT_FAR_PROCESS_SHIFT | (uint64_t)thread << FT_FAR_THREAD_SHIFT |
           (block <= FT_FAR_MAX_BLOCK ? block : 0);
}

uint64_t far_here(void)
{
    return agent_thread.cursor ? place(agent_charged_block()) : 0;
}

uint64_t far_behalf(void)
{
    return agent_thread.cursor ? far_here() : agent_thread.behalf;
}

static bool is_of_other_process(uint64_t from)
{
    return from >> FT_FAR_PROCESS_SHIFT != ft_writer_header()->request.process;
}

bool far_woken(uint64_t from)
{
    if (!agent_thread.cursor && from)
        agent_thread.behalf = from;
    if (!from || !is_of_other_process(from))
        return false;
    far_write(FT_SYNC_WOKEN, from);
    return true;
}

uint64_t far_root(void)
{
    return place(0);
}

void far_write(enum ft_synchronisation kind, uint64_t from)
{
    struct ft_cursor *cursor = agent_thread.cursor;
    if (!cursor || !from || !is_of_other_process(from)) /* within a process, locks tell */
        return;
    ft_write(cursor, (uint64_t)FT_TAG_SYNCHRONISATION << FT_TAG_SHIFT | (uint64_t)FT_SYNC_FAR << FT_SIZE_SHIFT |
                         (uint64_t)kind << FT_FAR_KIND_SHIFT | from);
}

/* ---- pipes and connections -------------------------------------------------------------------------------------- */

/* The object behind a descriptor; 0 if it is neither a pipe nor a socket. */
static uint64_t stream_of(PyObject *number)
{
    int64_t fd;
    struct stat status;
    if (!PyLong_CheckExact(number) || !agent_small_integer(number, &fd) || fd < 0 || fd > INT32_MAX ||
        fstat((int)fd, &status) != 0 || !(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
        return 0;
    return exchange_object(FAR_STREAM, status.st_dev, status.st_ino);
}

static PyObject *hooked_write(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    const uint64_t stream = n == 2 && far_behalf() ? stream_of(args[0]) : 0;
    if (stream) {
        const uint64_t other = exchange_other_end(stream);
        exchange_post(other ? other : stream, far_behalf());
    }
    return AS(fast_function, original_write)(self, args, n);
}

static PyObject *hooked_read(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *result = AS(fast_function, original_read)(self, args, n);
    if (!result || n != 2 || !PyBytes_CheckExact(result) || PyBytes_GET_SIZE(result) == 0)
        return result;
    const uint64_t stream = stream_of(args[0]);
    if (stream)
        far_woken(exchange_take(stream));
    return result;
}

/* _socket.socketpair(): two sockets, each the other's end. */
static PyObject *hooked_pair(PyObject *self, PyObject *args)
{
    PyObject *result = original_pair(self, args), *number[2] = {NULL, NULL};
    for (int i = 0; result && PyTuple_Check(result) && PyTuple_GET_SIZE(result) == 2 && i < 2; i++)
        number[i] = PyObject_CallMethod(PyTuple_GET_ITEM(result, i), "fileno", NULL);
    if (number[0] && number[1]) {
        const uint64_t one = stream_of(number[0]), other = stream_of(number[1]);
        if (one && other)
            exchange_connect(one, other);
    }
    Py_XDECREF(number[0]);
    Py_XDECREF(number[1]);
    if (result)
        PyErr_Clear();
    return result;
}

/* ---- semaphores ------------------------------------------------------------------------------------------------- */

/* Of one without a name: its address, which forked processes share. */
static uint64_t unnamed_semaphore(PyObject *self)
{
    PyObject *handle = PyObject_GetAttrString(self, "handle");
    const uint64_t address = handle && PyLong_Check(handle) ? PyLong_AsUnsignedLongLongMask(handle) : 0;
    Py_XDECREF(handle);
    PyErr_Clear();
    return address ? exchange_object(FAR_SEMAPHORE, address, 1) : 0;
}

/* By its name, which the processes that it was handed to know; where processes are forked, it has none. */
static uint64_t semaphore_of(PyObject *self)
{
    PyObject *name = PyObject_GetAttrString(self, "name");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
    for (const char *at = text; at && *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    const uint64_t object = text ? exchange_object(FAR_SEMAPHORE, hash, 0) : unnamed_semaphore(self);
    Py_XDECREF(name);
    PyErr_Clear();
    return object;
}

static bool is_lock(PyObject *self)
{
    PyObject *most = PyObject_GetAttrString(self, "maxvalue");
    const bool is = most && PyLong_Check(most) && PyLong_AsLong(most) == 1;
    Py_XDECREF(most);
    PyErr_Clear();
    return is;
}

static void released(PyObject *self)
{
    const uint64_t semaphore = far_behalf() ? semaphore_of(self) : 0;
    if (semaphore)
        exchange_post(semaphore, far_behalf());
}

static PyObject *hooked_release(PyObject *self, PyObject *args)
{
    released(self);
    return original_release(self, args);
}

static PyObject *hooked_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    released(self);
    return AS(fast_function, original_exit)(self, args, n);
}

/* Whether it was had without waiting: then True; False if it was not; NULL if it cannot be tried. */
static PyObject *tried(PyObject *self)
{
    PyObject *const nothing[] = {Py_False};
    PyObject *result = AS(fast_kw_function, original_acquire)(self, nothing, 1, NULL);
    PyErr_Clear();
    return result;
}

static PyObject *waited(PyObject *self, PyObject *result)
{
    const uint64_t semaphore = result && result != Py_False ? semaphore_of(self) : 0;
    if (semaphore)
        far_write(is_lock(self) ? FT_SYNC_LOCKED : FT_SYNC_WOKEN, exchange_last(semaphore));
    return result;
}

static PyObject *hooked_acquire(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    const bool may_wait = agent_thread.cursor && (n == 0 || args[0] == Py_True) && original_acquire;
    PyObject *result = may_wait ? tried(self) : NULL;
    if (result == Py_True)
        return result;
    Py_XDECREF(result);
    const bool waits = result != NULL;
    result = AS(fast_kw_function, original_acquire)(self, args, n, names);
    return waits ? waited(self, result) : result;
}

static PyObject *hooked_enter(PyObject *self, PyObject *args)
{
    PyObject *result = agent_thread.cursor && original_acquire ? tried(self) : NULL;
    if (result == Py_True)
        return result;
    Py_XDECREF(result);
    const bool waits = result != NULL;
    result = original_enter(self, args);
    return waits ? waited(self, result) : result;
}

void far_module_loaded(PyObject *module, const char *name)
{
    if (!exchange_is_there())
        return;
    if (strcmp(name, "posix") == 0 && !original_read) {
        original_read = agent_replace_in(module, "read", METH_FASTCALL, AS(PyCFunction, hooked_read));
        original_write = agent_replace_in(module, "write", METH_FASTCALL, AS(PyCFunction, hooked_write));
    } else if (strcmp(name, "_socket") == 0 && !original_pair) {
        original_pair = agent_replace_in(module, "socketpair", METH_VARARGS, hooked_pair);
    } else if (strcmp(name, "_multiprocessing") == 0 && !original_acquire) {
        PyObject *type = PyObject_GetAttrString(module, "SemLock");
        if (type) {
            const int keywords = METH_FASTCALL | METH_KEYWORDS;
            original_acquire = agent_replace_in(type, "acquire", keywords, AS(PyCFunction, hooked_acquire));
            original_release = agent_replace_in(type, "release", METH_NOARGS, hooked_release);
            original_enter = agent_replace_in(type, "__enter__", METH_NOARGS, hooked_enter);
            original_exit = agent_replace_in(type, "__exit__", METH_FASTCALL, AS(PyCFunction, hooked_exit));
        }
        Py_XDECREF(type);
        PyErr_Clear();
    }
}
