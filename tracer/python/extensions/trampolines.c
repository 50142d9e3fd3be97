/* What a hook of an extension type runs: trampoline k of a convention calls the function that its `hooks[k]` holds.
 *
 * A slot or method is given no context of its own. A trampoline is as short as can be: it loads its number as one more
 * argument, behind those that the convention has, and jumps to the convention's function, below. Hooks are never
 * removed.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "extensions.h"
#include "tracer/python/arrays/numpy.h"

#include <string.h>

#define N_HOOKS 4096 /* of each convention */
#define N_HOOKS_TEXT "4096"
#define TRAMPOLINE_BYTES 16

#if defined(__x86_64__)
#define ARGUMENT_1 "%esi"
#define ARGUMENT_2 "%edx"
#define ARGUMENT_3 "%ecx"
#define ARGUMENT_4 "%r8d"
#define ARGUMENT_5 "%r9d"
#define TRAMPOLINE(argument, function) "endbr64\n movl $number, " argument "\n jmp " function "\n"
#elif defined(__aarch64__)
#define ARGUMENT_1 "w1"
#define ARGUMENT_2 "w2"
#define ARGUMENT_3 "w3"
#define ARGUMENT_4 "w4"
#define ARGUMENT_5 "w5"
#define TRAMPOLINE(argument, function) "hint #34\n mov " argument ", #number\n b " function "\n" /* bti c */
#elif defined(__riscv)
#define ARGUMENT_1 "a1"
#define ARGUMENT_2 "a2"
#define ARGUMENT_3 "a3"
#define ARGUMENT_4 "a4"
#define ARGUMENT_5 "a5"
#define TRAMPOLINE(argument, function) "li " argument ", number\n tail " function "\n"
#else
#define NO_TRAMPOLINES /* on this processor: nothing is hooked */
#define ARGUMENT_1
#define ARGUMENT_2
#define ARGUMENT_3
#define ARGUMENT_4
#define ARGUMENT_5
#define TRAMPOLINE(argument, function)
#endif

/* The functions of a convention: `argument` is where its trampolines put their number. */
#define TRAMPOLINES(convention, argument) \
    __asm__(".text\n .p2align 4\n ft_trampolines_" #convention ":\n .set number, 0\n .rept " N_HOOKS_TEXT "\n" \
            TRAMPOLINE(argument, "ft_extension_" #convention) " .p2align 4\n .set number, number + 1\n .endr\n"); \
    extern const char trampolines_##convention[] __asm__("ft_trampolines_" #convention) \
        __attribute__((visibility("hidden")))
/* The targets of trampolines. */
#define TARGET(convention) __asm__("ft_extension_" #convention) __attribute__((used, noinline))

struct hook {
    extension_function original;
    const char *name;
    bool has_own_name;
};

static struct hook hooks[N_EXTENSION_CONVENTIONS][N_HOOKS];
static uint32_t n_hooks[N_EXTENSION_CONVENTIONS];
/* ---- a call ------------------------------------------------------------------------------------------------------- */

void extension_call_begin(struct extension_call *call, const char *name)
{
    struct agent_thread *t = &agent_thread;
    const void *frame = agent_current_frame();
    *call = (struct extension_call){.outer_frame = t->named_frame, .outer_name = t->hook_name};
    if (t->named_frame == frame || t->hook_frame == frame)
        return;
    if (t->times)
        call->is_charged = agent_times_compiled_begin(name, &call->outer_runs, &call->outer_stands_for);
    else
        call->is_charged = true;
    if (call->is_charged) {
        t->hook_name = name;
        t->named_frame = frame;
    }
}

void extension_call_end(const struct extension_call *call)
{
    struct agent_thread *t = &agent_thread;
    if (!call->is_charged)
        return;
    if (t->times)
        agent_times_compiled_end(call->outer_name && call->outer_runs, call->outer_stands_for);
    t->hook_name = call->outer_name;
    t->named_frame = call->outer_frame;
}

#define N_OWN_NAMES 256u

/* The name of an object that is called, where that lies in the object's own dictionary: "_ctypes.CFuncPtr: qsort" of a
 * foreign function. No code of the program's runs. Names are told apart by address: those that were made last are
 * remembered. */
static const char *name_of(const struct hook *hook, PyObject *self)
{
    static struct {
        const struct hook *hook;
        PyObject *own;
        const char *name;
    } made[N_OWN_NAMES];
    PyObject **dict = hook->has_own_name && agent_thread.times ? _PyObject_GetDictPtr(self) : NULL;
    PyObject *own = dict && *dict ? PyDict_GetItemString(*dict, "__name__") : NULL;
    const char *end = strrchr(hook->name, '.');
    if (!own || !PyUnicode_CheckExact(own) || !end)
        return hook->name;
    const uint32_t place = (uint32_t)((uintptr_t)own >> 4) % N_OWN_NAMES;
    if (made[place].hook != hook || made[place].own != own) {
        PyObject *type = PyUnicode_FromStringAndSize(hook->name, end - hook->name);
        PyObject *full = type ? PyUnicode_FromFormat("%U: %U", type, own) : NULL;
        Py_XDECREF(type);
        if (full)
            PyUnicode_InternInPlace(&full); /* the reference is kept */
        const char *name = full ? PyUnicode_AsUTF8(full) : NULL;
        PyErr_Clear();
        if (!name)
            return hook->name;
        Py_XDECREF(made[place].own);
        made[place].hook = hook;
        made[place].own = Py_NewRef(own);
        made[place].name = name;
    }
    return made[place].name;
}

/* Counts a call with arrays: its accesses are not seen. */
static void count_arrays(const struct hook *hook, PyObject *self, PyObject *const *args, Py_ssize_t n,
                         PyObject *kwnames, PyObject *kwargs, PyObject *result)
{
    const struct agent_call call = {.name = hook->name,
                                    .self = self,
                                    .args = args,
                                    .n_args = n,
                                    .kwnames = kwnames,
                                    .kwargs = kwargs,
                                    .result = result};
    if (!np.array || !result || agent_hook_running())
        return;
    const uint64_t bytes = np_call_bytes(&call);
    if (bytes)
        agent_count_unseen(hook->name, bytes, false);
}

static void count_in_tuple(const struct hook *hook, PyObject *self, PyObject *args, PyObject *kwargs, PyObject *result)
{
    const bool is_tuple = args && PyTuple_CheckExact(args); /* not of METH_O, METH_NOARGS and operators */
    count_arrays(hook, self, is_tuple ? &PyTuple_GET_ITEM(args, 0) : &args,
                 is_tuple ? PyTuple_GET_SIZE(args) : args != NULL, NULL,
                 kwargs && PyDict_CheckExact(kwargs) ? kwargs : NULL, result);
}

/* Calls the original of hook `number`, as `call` says, which needs `self`. */
#define CHARGED(type, convention, expression) \
    const struct hook *const hook = &hooks[convention][number]; \
    struct extension_call call; \
    extension_call_begin(&call, name_of(hook, self)); \
    type result = expression; \
    extension_call_end(&call)
#define ORIGINAL(function) ((function)hook->original)

typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_kw_function)(PyObject *, PyObject *const *, size_t, PyObject *);
typedef PyObject *(*method_function)(PyObject *, PyTypeObject *, PyObject *const *, size_t, PyObject *);

static PyObject *call_fast(PyObject *self, PyObject *const *args, Py_ssize_t n, uint32_t number) TARGET(fast);
static PyObject *call_fast(PyObject *self, PyObject *const *args, Py_ssize_t n, uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_FAST, ORIGINAL(fast_function)(self, args, n));
    count_arrays(hook, self, args, n, NULL, NULL, result);
    return result;
}

static PyObject *call_fast_kw(PyObject *self, PyObject *const *args, size_t n, PyObject *names, uint32_t number)
    TARGET(fast_kw);
static PyObject *call_fast_kw(PyObject *self, PyObject *const *args, size_t n, PyObject *names, uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_FAST_KW, ORIGINAL(fast_kw_function)(self, args, n, names));
    count_arrays(hook, self, args, PyVectorcall_NARGS(n), names, NULL, result);
    return result;
}

static PyObject *call_method(PyObject *self, PyTypeObject *type, PyObject *const *args, size_t n, PyObject *names,
                             uint32_t number) TARGET(method);
static PyObject *call_method(PyObject *self, PyTypeObject *type, PyObject *const *args, size_t n, PyObject *names,
                             uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_METHOD, ORIGINAL(method_function)(self, type, args, n, names));
    count_arrays(hook, self, args, PyVectorcall_NARGS(n), names, NULL, result);
    return result;
}

static PyObject *call_unary(PyObject *self, uint32_t number) TARGET(unary);
static PyObject *call_unary(PyObject *self, uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_UNARY, ORIGINAL(unaryfunc)(self));
    return result;
}

static PyObject *call_binary(PyObject *self, PyObject *other, uint32_t number) TARGET(binary);
static PyObject *call_binary(PyObject *self, PyObject *other, uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_BINARY, ORIGINAL(binaryfunc)(self, other));
    count_in_tuple(hook, self, other, NULL, result);
    return result;
}

static PyObject *call_ternary(PyObject *self, PyObject *other, PyObject *third, uint32_t number) TARGET(ternary);
static PyObject *call_ternary(PyObject *self, PyObject *other, PyObject *third, uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_TERNARY, ORIGINAL(ternaryfunc)(self, other, third));
    count_in_tuple(hook, self, other, third, result);
    return result;
}

static PyObject *call_index(PyObject *self, Py_ssize_t index, uint32_t number) TARGET(index);
static PyObject *call_index(PyObject *self, Py_ssize_t index, uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_INDEX, ORIGINAL(ssizeargfunc)(self, index));
    return result;
}

static PyObject *call_compare(PyObject *self, PyObject *other, int operation, uint32_t number) TARGET(compare);
static PyObject *call_compare(PyObject *self, PyObject *other, int operation, uint32_t number)
{
    CHARGED(PyObject *, EXTENSION_COMPARE, ORIGINAL(richcmpfunc)(self, other, operation));
    return result;
}

static int call_inquiry(PyObject *self, uint32_t number) TARGET(inquiry);
static int call_inquiry(PyObject *self, uint32_t number)
{
    CHARGED(int, EXTENSION_INQUIRY, ORIGINAL(inquiry)(self));
    return result;
}

static int call_contains(PyObject *self, PyObject *other, uint32_t number) TARGET(contains);
static int call_contains(PyObject *self, PyObject *other, uint32_t number)
{
    CHARGED(int, EXTENSION_CONTAINS, ORIGINAL(objobjproc)(self, other));
    return result;
}

static int call_set(PyObject *self, PyObject *key, PyObject *value, uint32_t number) TARGET(set);
static int call_set(PyObject *self, PyObject *key, PyObject *value, uint32_t number)
{
    CHARGED(int, EXTENSION_SET, ORIGINAL(objobjargproc)(self, key, value));
    if (result == 0)
        count_in_tuple(hook, NULL, key, value, Py_None);
    return result;
}

static int call_set_index(PyObject *self, Py_ssize_t index, PyObject *value, uint32_t number) TARGET(set_index);
static int call_set_index(PyObject *self, Py_ssize_t index, PyObject *value, uint32_t number)
{
    CHARGED(int, EXTENSION_SET_INDEX, ORIGINAL(ssizeobjargproc)(self, index, value));
    return result;
}

static Py_ssize_t call_size(PyObject *self, uint32_t number) TARGET(size);
static Py_ssize_t call_size(PyObject *self, uint32_t number)
{
    CHARGED(Py_ssize_t, EXTENSION_SIZE, ORIGINAL(lenfunc)(self));
    return result;
}

TRAMPOLINES(fast, ARGUMENT_3);
TRAMPOLINES(fast_kw, ARGUMENT_4);
TRAMPOLINES(method, ARGUMENT_5);
TRAMPOLINES(unary, ARGUMENT_1);
TRAMPOLINES(binary, ARGUMENT_2);
TRAMPOLINES(ternary, ARGUMENT_3);
TRAMPOLINES(index, ARGUMENT_2);
TRAMPOLINES(compare, ARGUMENT_3);
TRAMPOLINES(inquiry, ARGUMENT_1);
TRAMPOLINES(contains, ARGUMENT_2);
TRAMPOLINES(set, ARGUMENT_3);
TRAMPOLINES(set_index, ARGUMENT_3);
TRAMPOLINES(size, ARGUMENT_1);

static const char *const trampolines[N_EXTENSION_CONVENTIONS] = {
    trampolines_fast,    trampolines_fast_kw,   trampolines_method,  trampolines_unary,   trampolines_binary,
    trampolines_ternary, trampolines_index,     trampolines_compare, trampolines_inquiry, trampolines_contains,
    trampolines_set,     trampolines_set_index, trampolines_size,
};

/* ---- hooks -------------------------------------------------------------------------------------------------------- */

extension_function extension_new_hook(enum extension_convention convention, extension_function original,
                                      const char *name, bool has_own_name)
{
#ifdef NO_TRAMPOLINES
    return NULL;
#endif
    if (n_hooks[convention] == N_HOOKS)
        return NULL;
    const uint32_t number = n_hooks[convention]++;
    hooks[convention][number] = (struct hook){original, name, has_own_name};
    return (extension_function)(trampolines[convention] + TRAMPOLINE_BYTES * number);
}
