/* Child processes: which there are, how those ended that the program waited for, and the agent in those that are
 * followed.
 *
 * fork() is seen by the writer. What begins otherwise is not: the C library starts children of posix_spawn() and
 * system() in ways of its own, and the interpreter those of `subprocess` and `multiprocessing` mostly by vfork(). So
 * the functions of the interpreter that do so are replaced; each keeps its original in one of the pointers below.
 *
 * Where children are followed, the command line of one that is to run this interpreter is changed: main.py comes first,
 * and takes itself out of it again (see there). Its child asks for a stream in that of the process that started it.
 * What is not such a command goes on untraced, and is told by name. Forked children keep the agent they have.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/python/arrays/hooks.h"
#include "tracer/python/native_threads.h"
#include "tracer/python/blocks/markers.h"
#include "tracer/python/blocks/timing.h"
#include "exchange.h"
#include "far.h"
#include "processes.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAST METH_FASTCALL
#define FAST_KW (METH_FASTCALL | METH_KEYWORDS)
#define AS(type, function) ((type)(void (*)(void))(function))
#define MAX_COMMAND_BYTES 4096u
#define NO_DESCRIPTOR UINT32_MAX

typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_kw_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static PyCFunction fork_exec, fork_exec_fast, spawn, spawnp, run_command, wait_pid, wait_any, wait3_any, wait4_pid;
static PyCFunction exec_program, exec_program_with;
static PyObject *own_bootstrap, *own_agent, *own_core; /* NULL: children are not followed */
static uint64_t place_at_fork;                         /* of the parent */
static uint64_t created_at;                            /* where this process was created; 0: not known */

static bool follows(void)
{
    const struct ft_header *header = ft_writer_header();
    return own_bootstrap && header && atomic_load(&header->request.follow);
}

/* ---- the beginning of this process ------------------------------------------------------------------------------ */

static uint64_t end_of(uint32_t pid)
{
    return exchange_object(FAR_END, pid, 0);
}

void processes_begin(void)
{
    struct ft_cursor *cursor = exchange_is_there() ? agent_cursor() : NULL;
    if (!cursor)
        return;
    exchange_post(end_of((uint32_t)getpid()), far_root());
    if (created_at)
        far_write(FT_SYNC_CREATED, created_at);
}

static void before_fork(void)
{
    place_at_fork = exchange_is_there() ? far_behalf() : 0;
}

static void in_forked_child(void)
{
    timing_forked();
    native_threads_forked();
    markers_forked();
    created_at = place_at_fork;
    if (agent_thread.cursor)
        processes_begin();
}

/* "R:D:K:P", what `door` says and the place where the child was created. */
static bool parse_door(const char *text, struct ft_door *door)
{
    unsigned int reader_pid, fd, kind;
    unsigned long long place;
    if (sscanf(text, "%u:%u:%u:%llu", &reader_pid, &fd, &kind, &place) != 4)
        return false;
    *door = (struct ft_door){reader_pid, fd, kind == FT_REQUEST_EXEC ? FT_REQUEST_EXEC : FT_REQUEST_START};
    created_at = place;
    return true;
}

static bool attach_through(const char *text, PyObject *words)
{
    struct ft_door door;
    char *pointers[256] = {NULL};
    PyObject *encoded[256] = {NULL};
    Py_ssize_t n = PyList_Check(words) ? PyList_GET_SIZE(words) : 0, count = 0;
    if (!parse_door(text, &door))
        return false;
    for (; count < n && count < 255; count++) {
        encoded[count] = PyUnicode_EncodeFSDefault(PyList_GET_ITEM(words, count));
        if (!encoded[count])
            break;
        pointers[count] = PyBytes_AS_STRING(encoded[count]);
    }
    PyErr_Clear();
    const bool done = count > 0 && ft_writer_attach_through(&door, pointers[0], pointers);
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(encoded[i]);
    return done;
}

bool processes_attach(const char *stream, PyObject *bootstrap, PyObject *agent, const char *core, PyObject *words)
{
    const bool is_child = strchr(stream, ':') != NULL;
    if (is_child ? !attach_through(stream, words) : !ft_writer_attach(atoi(stream)))
        return false;
    const struct ft_request *request = &ft_writer_header()->request;
    if (bootstrap == Py_None || !atomic_load(&request->follow))
        return true;
    own_core = PyUnicode_FromString(core);
    if (!own_core || pthread_atfork(before_fork, NULL, in_forked_child) != 0) {
        PyErr_Clear();
        return true;
    }
    own_bootstrap = Py_NewRef(bootstrap);
    own_agent = Py_NewRef(agent);
    if (request->exchange_fd != NO_DESCRIPTOR)
        exchange_attach(atomic_load(&ft_writer_header()->reader_pid), request->exchange_fd);
    return true;
}

/* ---- children that are told of ---------------------------------------------------------------------------------- */

struct told_child {
    uint32_t pid, event, command_bytes;
    int32_t status;
    const char *command;
};

static void fill_child(void *memory, uint32_t number, void *context)
{
    struct ft_side_child *side = memory;
    const struct told_child *child = context;
    (void)number;
    *side = (struct ft_side_child){{FT_SIDE_CHILD, 0}, child->pid, child->event, child->status, child->command_bytes};
    if (child->command_bytes)
        memcpy(side + 1, child->command, child->command_bytes);
}

static void tell(const struct told_child *child)
{
    ft_writer_append(sizeof(struct ft_side_child) + child->command_bytes, NULL, fill_child, (void *)child);
}

/* Tells of a program with these words, str or bytes, that is not followed. */
static void tell_begun(enum ft_child_event event, uint32_t pid, PyObject *words)
{
    char text[MAX_COMMAND_BYTES];
    uint32_t used = 0;
    PyObject *list = words ? PySequence_List(words) : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *bytes;
        if (!PyUnicode_FSConverter(PyList_GET_ITEM(list, i), &bytes))
            break;
        const size_t length = (size_t)PyBytes_GET_SIZE(bytes) + 1;
        if (length <= sizeof text - used) {
            memcpy(text + used, PyBytes_AS_STRING(bytes), length);
            used += (uint32_t)length;
        }
        Py_DECREF(bytes);
    }
    Py_XDECREF(list);
    PyErr_Clear();
    tell(&(struct told_child){.pid = pid, .event = event, .command = text, .command_bytes = used});
}

/* Of a result (pid, status, ...) of a function that waits for children. */
static PyObject *waited(PyObject *result)
{
    if (!result || !PyTuple_Check(result) || PyTuple_GET_SIZE(result) < 2 || !follows())
        return result;
    const long pid = PyLong_AsLong(PyTuple_GET_ITEM(result, 0)), status = PyLong_AsLong(PyTuple_GET_ITEM(result, 1));
    if (PyErr_Occurred()) {
        PyErr_Clear();
    } else if (pid > 0) {
        const uint64_t place = exchange_last(end_of((uint32_t)pid));
        tell(&(struct told_child){.pid = (uint32_t)pid, .event = FT_CHILD_ENDED, .status = (int32_t)status});
        if (place && agent_thread.cursor)
            far_write(FT_SYNC_JOINED, place);
    }
    return result;
}

static PyObject *hooked_waitpid(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    return waited(AS(fast_function, wait_pid)(self, args, n));
}

static PyObject *hooked_wait(PyObject *self, PyObject *args)
{
    return waited(wait_any(self, args));
}

static PyObject *hooked_wait3(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return waited(AS(fast_kw_function, wait3_any)(self, args, n, names));
}

static PyObject *hooked_wait4(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return waited(AS(fast_kw_function, wait4_pid)(self, args, n, names));
}

/* ---- programs of this interpreter ------------------------------------------------------------------------------- */

static bool is_own_interpreter(PyObject *path)
{
    PyObject *bytes;
    struct stat own, other;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        PyErr_Clear();
        return false;
    }
    const bool is = stat("/proc/self/exe", &own) == 0 && stat(PyBytes_AS_STRING(bytes), &other) == 0 &&
                    own.st_dev == other.st_dev && own.st_ino == other.st_ino &&
                    access(PyBytes_AS_STRING(bytes), X_OK) == 0;
    Py_DECREF(bytes);
    return is;
}

/* Where the interpreter's own options end among its words, and what comes then: -c, -m, or "--" for a script. 0 for a
 * command that runs no program, or that main.py cannot stand in for. A letter -c or -m at the end of a group is left in
 * `*group`. */
static Py_ssize_t end_of_options(PyObject *words, const char **kind, PyObject **group)
{
    const Py_ssize_t n = PyList_GET_SIZE(words);
    *group = NULL;
    for (Py_ssize_t i = 1; i < n; i++) {
        const char *word = PyBytes_AS_STRING(PyList_GET_ITEM(words, i));
        if (word[0] != '-') {
            *kind = "--";
            return i;
        }
        if (strcmp(word, "--check-hash-based-pycs") == 0) {
            i++;
            continue;
        }
        if (word[1] == '\0' || word[1] == '-')
            return 0;
        const size_t plain = strcspn(word + 1, "cmWX");
        if (strcspn(word + 1, "Vhi?x") < plain)
            return 0;
        const char special = word[1 + plain];
        if (special == '\0')
            continue;
        if (special == 'W' || special == 'X') {
            i += word[2 + plain] == '\0';
            continue;
        }
        if (word[2 + plain] != '\0') /* -cCODE */
            return 0;
        *kind = special == 'c' ? "-c" : "-m";
        if (plain)
            *group = PyBytes_FromStringAndSize(word, (Py_ssize_t)plain + 1);
        return i + 1 < n ? i + 1 : 0;
    }
    return 0;
}

/* The process that tracks what others share: it does nothing of the program, and lives longer. */
static bool is_tracker(PyObject *words)
{
    static const char code[] = "from multiprocessing.resource_tracker import";
    for (Py_ssize_t i = 1; i < PyList_GET_SIZE(words); i++)
        if (strncmp(PyBytes_AS_STRING(PyList_GET_ITEM(words, i)), code, sizeof code - 1) == 0)
            return true;
    return false;
}

static bool append_bytes(PyObject *list, PyObject *bytes)
{
    const bool done = bytes && PyList_Append(list, bytes) == 0;
    Py_XDECREF(bytes);
    return done;
}

static bool append_path(PyObject *list, PyObject *path)
{
    PyObject *bytes;
    return PyUnicode_FSConverter(path, &bytes) && append_bytes(list, bytes);
}

/* A list of bytes of a sequence of words; NULL without an exception if they are none. */
static PyObject *as_bytes(PyObject *words)
{
    PyObject *list = PySequence_List(words), *result = list ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; result && i < PyList_GET_SIZE(list); i++)
        if (!append_path(result, PyList_GET_ITEM(list, i)))
            Py_CLEAR(result);
    Py_XDECREF(list);
    PyErr_Clear();
    return result;
}

/* The command line with main.py before the program; NULL without an exception if it is not one to follow. */
static PyObject *with_agent(PyObject *words, enum ft_request_kind request)
{
    const char *kind = NULL;
    PyObject *group = NULL, *list = as_bytes(words);
    const Py_ssize_t begin =
        list && PyList_GET_SIZE(list) > 1 && !is_tracker(list) ? end_of_options(list, &kind, &group) : 0;
    PyObject *found = begin ? PyList_New(0) : NULL;
    if (!found) {
        Py_XDECREF(list);
        Py_XDECREF(group);
        return NULL;
    }
    const struct ft_header *header = ft_writer_header();
    const bool is_script = kind[1] == '-';
    const Py_ssize_t options = is_script ? begin : begin - 1;
    bool done = true;
    for (Py_ssize_t i = 0; i < options && done; i++)
        done = PyList_Append(found, PyList_GET_ITEM(list, i)) == 0;
    done = done && (!group || PyList_Append(found, group) == 0) && append_path(found, own_bootstrap) &&
           append_bytes(found, PyBytes_FromString("--fd")) &&
           append_bytes(found, PyBytes_FromFormat("%u:%u:%d:%lu", atomic_load(&header->reader_pid),
                                                  header->request.own_fd, (int)request, (unsigned long)far_behalf())) &&
           append_bytes(found, PyBytes_FromString("--agent")) && append_path(found, own_agent) &&
           append_bytes(found, PyBytes_FromString("--core")) && append_path(found, own_core) &&
           append_bytes(found, PyBytes_FromString(kind));
    for (Py_ssize_t i = begin; i < PyList_GET_SIZE(list) && done; i++)
        done = PyList_Append(found, PyList_GET_ITEM(list, i)) == 0;
    Py_DECREF(list);
    Py_XDECREF(group);
    PyErr_Clear();
    if (!done)
        Py_CLEAR(found);
    return found;
}

static bool is_executable(PyObject *path)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        PyErr_Clear();
        return false;
    }
    const bool is = access(PyBytes_AS_STRING(bytes), X_OK) == 0;
    Py_DECREF(bytes);
    return is;
}

/* The first of several files that can be executed; a borrowed reference, or NULL. */
static PyObject *first_executable(PyObject *files)
{
    PyObject *list = PySequence_Check(files) ? PySequence_List(files) : NULL, *found = NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list) && !found; i++)
        if (is_executable(PyList_GET_ITEM(list, i)))
            found = PyList_GET_ITEM(list, i);
    Py_XDECREF(list); /* the sequence still holds it */
    PyErr_Clear();
    return found;
}

/* ---- starting children ------------------------------------------------------------------------------------------ */

/* Counts the child that a call has begun, unless the call failed. */
static PyObject *begun(PyObject *result)
{
    if (result)
        ft_writer_child_begins();
    return result;
}

static bool is_uncounted(PyObject *words)
{
    PyObject *list = follows() && words ? as_bytes(words) : NULL;
    const bool is = list && is_tracker(list);
    Py_XDECREF(list);
    return is;
}

/* What fork_exec() is given first: the program's words, and the files to try. */
struct start {
    PyObject *words, *files; /* new references where it is followed; else NULL */
    bool is_tracker;
};

static struct start prepared(PyObject *words, PyObject *files)
{
    struct start start = {.is_tracker = is_uncounted(words)};
    PyObject *file = follows() && !start.is_tracker ? first_executable(files) : NULL;
    if (file && is_own_interpreter(file))
        start.words = with_agent(words, FT_REQUEST_START);
    if (start.words)
        start.files = PyTuple_Pack(1, file);
    if (!start.files)
        Py_CLEAR(start.words);
    PyErr_Clear();
    return start;
}

/* Where it may not use vfork(), fork_exec() forks, and the child has been counted. */
static PyObject *started(struct start *start, PyObject *result, uint32_t forks, PyObject *words)
{
    ft_writer_fork_alone(false);
    if (ft_writer_forks() == forks && !start->is_tracker)
        begun(result);
    if (result && !start->words && !start->is_tracker && follows() && PyLong_Check(result))
        tell_begun(FT_CHILD_BEGUN, (uint32_t)PyLong_AsUnsignedLongMask(result), words);
    Py_CLEAR(start->words);
    Py_CLEAR(start->files);
    return result;
}

static PyObject *hooked_fork_exec(PyObject *self, PyObject *args)
{
    const uint32_t forks = ft_writer_forks();
    const bool is_usual = PyTuple_GET_SIZE(args) > 2;
    struct start start = is_usual ? prepared(PyTuple_GET_ITEM(args, 0), PyTuple_GET_ITEM(args, 1)) : (struct start){0};
    PyObject *changed = start.words ? PyTuple_New(PyTuple_GET_SIZE(args)) : NULL;
    for (Py_ssize_t i = 0; changed && i < PyTuple_GET_SIZE(args); i++)
        PyTuple_SET_ITEM(changed, i,
                         Py_NewRef(i == 0   ? start.words
                                   : i == 1 ? start.files
                                            : PyTuple_GET_ITEM(args, i)));
    PyErr_Clear();
    ft_writer_fork_alone(true);
    PyObject *result =
        started(&start, fork_exec(self, changed ? changed : args), forks, is_usual ? PyTuple_GET_ITEM(args, 0) : NULL);
    Py_XDECREF(changed);
    return result;
}

#define MOST_ARGUMENTS 64

static PyObject *hooked_fork_exec_fast(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    const uint32_t forks = ft_writer_forks();
    PyObject *changed[MOST_ARGUMENTS];
    struct start start = n > 2 && n <= MOST_ARGUMENTS ? prepared(args[0], args[1]) : (struct start){0};
    if (start.words) {
        memcpy(changed, args, (size_t)n * sizeof *changed);
        changed[0] = start.words;
        changed[1] = start.files;
    }
    ft_writer_fork_alone(true);
    PyObject *result = AS(fast_function, fork_exec_fast)(self, start.words ? changed : args, n);
    return started(&start, result, forks, n ? args[0] : NULL);
}

/* posix_spawn(path, argv, ...), of which `looks_up` finds the file by itself. */
static PyObject *spawned(PyCFunction original, bool looks_up, PyObject *self, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    PyObject *changed[MOST_ARGUMENTS];
    const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    const bool is_own = follows() && n > 2 && all <= MOST_ARGUMENTS && !looks_up && is_own_interpreter(args[0]);
    PyObject *words = is_own ? with_agent(args[1], FT_REQUEST_START) : NULL;
    if (words) {
        memcpy(changed, args, (size_t)all * sizeof *changed);
        changed[1] = words;
    }
    PyObject *result = begun(AS(fast_kw_function, original)(self, words ? changed : args, n, names));
    if (result && !words && follows() && n > 1 && PyLong_Check(result))
        tell_begun(FT_CHILD_BEGUN, (uint32_t)PyLong_AsUnsignedLongMask(result), args[1]);
    Py_XDECREF(words);
    return result;
}

static PyObject *hooked_spawn(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return spawned(spawn, false, self, args, n, names);
}

static PyObject *hooked_spawnp(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return spawned(spawnp, true, self, args, n, names);
}

static PyObject *hooked_command(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *result = begun(AS(fast_kw_function, run_command)(self, args, n, names));
    if (result && n > 0 && follows()) {
        PyObject *words = PyTuple_Pack(1, args[0]);
        tell_begun(FT_CHILD_BEGUN, 0, words);
        Py_XDECREF(words);
        PyErr_Clear();
    }
    return result;
}

/* execv(path, argv) and execve(path, argv, env): this process becomes another program. */
static PyObject *replaced(PyCFunction original, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *changed[MOST_ARGUMENTS];
    struct ft_header *header = ft_writer_header();
    const bool is_own = follows() && n > 1 && n <= MOST_ARGUMENTS && !names && is_own_interpreter(args[0]);
    PyObject *words = is_own ? with_agent(args[1], FT_REQUEST_EXEC) : NULL;
    timing_stop();
    if (words) {
        memcpy(changed, args, (size_t)n * sizeof *changed);
        changed[1] = words;
        atomic_store(&header->replaced, 1);
    } else if (follows() && n > 1 && is_executable(args[0])) {
        tell_begun(FT_CHILD_BECAME, (uint32_t)getpid(), args[1]);
    }
    PyObject *const *given = words ? changed : args;
    PyObject *result = original == exec_program ? AS(fast_function, original)(self, given, n)
                                                : AS(fast_kw_function, original)(self, given, n, names);
    atomic_store(&header->replaced, 0); /* it has failed */
    Py_XDECREF(words);
    return result;
}

static PyObject *hooked_execv(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    return replaced(exec_program, self, args, n, NULL);
}

static PyObject *hooked_execve(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return replaced(exec_program_with, self, args, n, names);
}

void processes_module_loaded(PyObject *module, const char *name)
{
    if (strcmp(name, "posix") == 0 && !spawn) {
        spawn = agent_replace_in(module, "posix_spawn", FAST_KW, AS(PyCFunction, hooked_spawn));
        spawnp = agent_replace_in(module, "posix_spawnp", FAST_KW, AS(PyCFunction, hooked_spawnp));
        run_command = agent_replace_in(module, "system", FAST_KW, AS(PyCFunction, hooked_command));
        if (!follows())
            return;
        wait_pid = agent_replace_in(module, "waitpid", FAST, AS(PyCFunction, hooked_waitpid));
        wait_any = agent_replace_in(module, "wait", METH_NOARGS, hooked_wait);
        wait3_any = agent_replace_in(module, "wait3", FAST_KW, AS(PyCFunction, hooked_wait3));
        wait4_pid = agent_replace_in(module, "wait4", FAST_KW, AS(PyCFunction, hooked_wait4));
        exec_program = agent_replace_in(module, "execv", FAST, AS(PyCFunction, hooked_execv));
        exec_program_with = agent_replace_in(module, "execve", FAST_KW, AS(PyCFunction, hooked_execve));
    } else if (strcmp(name, "_posixsubprocess") == 0 && !fork_exec && !fork_exec_fast) {
        fork_exec = agent_replace_in(module, "fork_exec", METH_VARARGS, hooked_fork_exec);
        fork_exec_fast = agent_replace_in(module, "fork_exec", FAST, AS(PyCFunction, hooked_fork_exec_fast));
    }
    far_module_loaded(module, name);
}
