/* Finds what to hook: the methods, properties and slots of extension types, and functions of modules that compute.
 *
 * All types that are ready are subclasses of `object`: whenever a module is loaded, those that are new are looked at.
 * Whose code a function is, its object file tells. Of the interpreter's own, modules that compute are hooked; what else
 * is in it (dict, itertools, functools) is what bytecode works with, or hands calls on; and its slots are shared by
 * many types. A slot belongs to the type that has its wrapper among its attributes; types that have inherited it get
 * the same hook. `seen` holds the types that were looked at, `known` the hooks of slots.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "extensions.h"
#include "tracer/python/arrays/numpy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char UNHOOKED[] = "(compiled functions beyond those that can be hooked)";

/* Modules of the standard library whose functions and types compute, by the first part of their names. */
static const char *const computing[] = {
    "_blake2",     "_bz2",       "_codecs_cn",   "_codecs_hk",  "_codecs_iso2022",
    "_codecs_jp",  "_codecs_kr", "_codecs_tw",   "_csv",        "_ctypes",
    "_dbm",        "_decimal",   "_elementtree", "_gdbm",       "_hashlib",
    "_hmac",       "_json",      "_lzma",        "_md5",        "_multibytecodec",
    "_pickle",     "_sha1",      "_sha2",        "_sha256",     "_sha3",
    "_sha512",     "_sqlite3",   "_sre",         "_statistics", "_struct",
    "_zstd",       "audioop",    "binascii",     "ctypes",      "decimal",
    "hashlib",     "mmap",       "pyexpat",      "re",          "sqlite3",
    "unicodedata", "xml",        "zlib",
};

/* Packages whose own types are hooked elsewhere, or hand calls on to Python code: by the first part of their names. */
static const char *const handing_on[] = {"foretrace", "_foretrace", "gevent", "greenlet", "numpy", "wrapt", "zope"};

static bool is_among(const char *const *names, size_t n, const char *module)
{
    const size_t length = strcspn(module, ".");
    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], module, length) == 0 && names[i][length] == '\0')
            return true;
    return false;
}

#define IS_AMONG(names, module) is_among(names, sizeof names / sizeof *names, module)

/* ---- whose code a function is ------------------------------------------------------------------------------------- */

enum owner { OWN, INTERPRETER, LIBRARY, NUMPY, EXTENSION };

/* The kind of an object file: the interpreter's, a module of the standard library, another. */
static enum owner owner_of_file(const char *file, const void *base)
{
    Dl_info info;
    if (dladdr((const void *)(uintptr_t)extensions_init, &info) && info.dli_fbase == base)
        return OWN;
    if (dladdr((const void *)(uintptr_t)PyObject_Repr, &info) && info.dli_fbase == base)
        return INTERPRETER;
    return strstr(file, "/lib-dynload/") ? LIBRARY : strstr(file, "-packages/numpy/") ? NUMPY : EXTENSION;
}

static enum owner owner_of(extension_function function)
{
    static const void *last_base;
    static enum owner last;
    Dl_info info;
    if (!dladdr((const void *)(uintptr_t)function, &info) || !info.dli_fname)
        return EXTENSION; /* made at run time */
    if (info.dli_fbase != last_base) {
        last_base = info.dli_fbase;
        last = owner_of_file(info.dli_fname, last_base);
    }
    return last;
}

/* Whether calls of a function are to be charged that belongs to `module`. */
static bool is_in_scope(extension_function function, const char *module)
{
    const enum owner owner = owner_of(function);
    return owner == EXTENSION || ((owner == LIBRARY || owner == INTERPRETER) && IS_AMONG(computing, module));
}

/* ---- memory of others --------------------------------------------------------------------------------------------- */

/* Whether a word is writable: method tables can lie in read-only memory. Tested by having the kernel rewrite its value.
 */
static bool is_writable(void *word)
{
    static uintptr_t last_page;
    static bool last;
    const uintptr_t page = (uintptr_t)word >> 12;
    int ends[2];
    if (page == last_page)
        return last;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    last_page = page;
    last =
        write(ends[1], word, sizeof(void *)) == sizeof(void *) && read(ends[0], word, sizeof(void *)) == sizeof(void *);
    close(ends[0]);
    close(ends[1]);
    return last;
}

static void *copy_of(const void *memory, size_t bytes)
{
    void *copy = malloc(bytes);
    return copy ? memcpy(copy, memory, bytes) : NULL;
}

/* ---- functions and methods ---------------------------------------------------------------------------------------- */

static const char *joined(const char *prefix, const char *name)
{
    char *text = malloc(strlen(prefix) + strlen(name) + 2);
    return text ? strcat(strcat(strcpy(text, prefix), "."), name) : NULL;
}

static extension_function hook_or_count(enum extension_convention convention, extension_function original,
                                        const char *prefix, const char *name, bool has_own_name)
{
    const char *full = joined(prefix, name);
    const extension_function hook = full ? extension_new_hook(convention, original, full, has_own_name) : NULL;
    if (full && !hook) {
        agent_count_unseen(UNHOOKED, 0, false);
        free((char *)full);
    }
    return hook;
}

static int convention_of(int flags)
{
    switch (flags & ~(METH_CLASS | METH_STATIC | METH_COEXIST)) {
    case METH_FASTCALL: return EXTENSION_FAST;
    case METH_FASTCALL | METH_KEYWORDS: return EXTENSION_FAST_KW;
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS: return EXTENSION_METHOD;
    case METH_VARARGS:
    case METH_O:
    case METH_NOARGS: return EXTENSION_BINARY;
    case METH_VARARGS | METH_KEYWORDS: return EXTENSION_TERNARY;
    default: return -1;
    }
}

/* Hooks the function that `*def` describes, which is replaced where it may not be written. */
static void hook_method(PyMethodDef **def, const char *prefix, const char *module)
{
    const int convention = convention_of((*def)->ml_flags);
    const extension_function original = (extension_function)(*def)->ml_meth;
    if (convention < 0 || !(*def)->ml_name || !is_in_scope(original, module))
        return;
    const extension_function hook =
        hook_or_count((enum extension_convention)convention, original, prefix, (*def)->ml_name, false);
    PyMethodDef *target = !hook || is_writable(&(*def)->ml_meth) ? *def : copy_of(*def, sizeof **def);
    if (hook && target) {
        target->ml_meth = (PyCFunction)hook;
        *def = target;
    }
}

/* ---- properties --------------------------------------------------------------------------------------------------- */

struct property {
    PyGetSetDef hooked, original; /* `hooked` has this struct as its closure */
    const char *name;
};

static PyObject *get_property(PyObject *self, void *closure)
{
    const struct property *property = closure;
    struct extension_call call;
    extension_call_begin(&call, property->name);
    PyObject *result = property->original.get(self, property->original.closure);
    extension_call_end(&call);
    return result;
}

static int set_property(PyObject *self, PyObject *value, void *closure)
{
    const struct property *property = closure;
    struct extension_call call;
    extension_call_begin(&call, property->name);
    const int result = property->original.set(self, value, property->original.closure);
    extension_call_end(&call);
    return result;
}

static void hook_property(PyGetSetDescrObject *descriptor, const char *prefix, const char *module)
{
    const PyGetSetDef *def = descriptor->d_getset;
    const extension_function function = def->get ? (extension_function)def->get : (extension_function)def->set;
    if (!def->name || !is_in_scope(function, module))
        return;
    struct property *property = malloc(sizeof *property);
    const char *name = property ? joined(prefix, def->name) : NULL;
    if (!name) {
        free(property);
        return;
    }
    *property = (struct property){*def, *def, name};
    property->hooked.get = def->get ? get_property : NULL;
    property->hooked.set = def->set ? set_property : NULL;
    property->hooked.closure = property;
    descriptor->d_getset = &property->hooked;
}

/* ---- attributes --------------------------------------------------------------------------------------------------- */

static void hook_function(PyObject *function, const char *prefix, const char *module)
{
    if (PyCFunction_Check(function))
        hook_method(&((PyCFunctionObject *)function)->m_ml, prefix, module);
}

/* A function in whatever wraps it in a class: pybind11 has all methods in such. Not the interpreter's, which are
 * shared: there is one `__new__` for all types. Of a class that may be Python's, static methods in C alone: others are
 * somebody else's. */
static void hook_wrapped(PyObject *value, PyTypeObject *type, const char *prefix, const char *module)
{
    static const char *const accessors[] = {"fget", "fset", "fdel"};
    const bool is_class =
        PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && owner_of((extension_function)type->tp_dealloc) == INTERPRETER;
    PyObject *function = NULL;
    if (PyInstanceMethod_Check(value))
        function = Py_NewRef(PyInstanceMethod_GET_FUNCTION(value));
    else if (Py_IS_TYPE(value, &PyStaticMethod_Type) || Py_IS_TYPE(value, &PyClassMethod_Type))
        function = PyObject_GetAttrString(value, "__func__");
    else if (PyCFunction_Check(value))
        function = Py_NewRef(value);
    if (function && PyCFunction_Check(function) &&
        owner_of((extension_function)PyCFunction_GET_FUNCTION(function)) != INTERPRETER &&
        (!is_class || PyCFunction_GET_SELF(function) == (PyObject *)type))
        hook_function(function, prefix, module);
    Py_XDECREF(function);
    for (size_t i = 0; Py_IS_TYPE(value, &PyProperty_Type) && i < sizeof accessors / sizeof *accessors; i++) {
        PyObject *accessor = PyObject_GetAttrString(value, accessors[i]);
        if (accessor)
            hook_wrapped(accessor, type, prefix, module);
        Py_XDECREF(accessor);
    }
    PyErr_Clear();
}

static void hook_attributes(PyTypeObject *type, const char *prefix, const char *module)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &key, &value);) {
        const bool is_method = Py_IS_TYPE(value, &PyMethodDescr_Type) || Py_IS_TYPE(value, &PyClassMethodDescr_Type);
        if (is_method && PyDescr_TYPE(value) == type)
            hook_method(&((PyMethodDescrObject *)value)->d_method, prefix, module);
        else if (Py_IS_TYPE(value, &PyGetSetDescr_Type) && PyDescr_TYPE(value) == type)
            hook_property((PyGetSetDescrObject *)value, prefix, module);
        else
            hook_wrapped(value, type, prefix, module);
    }
    PyErr_Clear();
}

/* ---- slots -------------------------------------------------------------------------------------------------------- */

/* The place of slots: the type itself, or a table that it points to. */
enum suite { IN_TYPE, IN_NUMBER, IN_SEQUENCE, IN_MAPPING, IN_ASYNC };

static const struct suite_place {
    size_t pointer, bytes, heap; /* in a type: the pointer, and where the table is in a heap type */
} suites[] = {
#define SUITE(name, type) {offsetof(PyTypeObject, tp_##name), sizeof(type), offsetof(PyHeapTypeObject, name)}
    [IN_NUMBER] = SUITE(as_number, PyNumberMethods),
    [IN_SEQUENCE] = SUITE(as_sequence, PySequenceMethods),
    [IN_MAPPING] = SUITE(as_mapping, PyMappingMethods),
    [IN_ASYNC] = SUITE(as_async, PyAsyncMethods),
};

#define TYPE(slot, convention, name) {IN_TYPE, offsetof(PyTypeObject, slot), EXTENSION_##convention, name}
#define NUMBER(slot, convention, name) {IN_NUMBER, offsetof(PyNumberMethods, slot), EXTENSION_##convention, name}
#define SEQUENCE(slot, convention, name) {IN_SEQUENCE, offsetof(PySequenceMethods, slot), EXTENSION_##convention, name}
#define MAPPING(slot, convention, name) {IN_MAPPING, offsetof(PyMappingMethods, slot), EXTENSION_##convention, name}
#define ASYNC(slot, convention, name) {IN_ASYNC, offsetof(PyAsyncMethods, slot), EXTENSION_##convention, name}

static const struct slot {
    enum suite suite;
    size_t offset;
    enum extension_convention convention;
    const char *name;
} slots[] = {
    TYPE(tp_call, TERNARY, "__call__"),
    TYPE(tp_new, TERNARY, "__new__"),
    TYPE(tp_init, SET, "__init__"),
    TYPE(tp_iter, UNARY, "__iter__"),
    TYPE(tp_iternext, UNARY, "__next__"),
    TYPE(tp_repr, UNARY, "__repr__"),
    TYPE(tp_str, UNARY, "__str__"),
    TYPE(tp_hash, SIZE, "__hash__"),
    TYPE(tp_richcompare, COMPARE, "__eq__"),
    TYPE(tp_getattro, BINARY, "__getattribute__"),
    TYPE(tp_setattro, SET, "__setattr__"),
    TYPE(tp_descr_get, TERNARY, "__get__"),
    TYPE(tp_descr_set, SET, "__set__"),
    MAPPING(mp_length, SIZE, "__len__"),
    MAPPING(mp_subscript, BINARY, "__getitem__"),
    MAPPING(mp_ass_subscript, SET, "__setitem__"),
    SEQUENCE(sq_length, SIZE, "__len__"),
    SEQUENCE(sq_item, INDEX, "__getitem__"),
    SEQUENCE(sq_ass_item, SET_INDEX, "__setitem__"),
    SEQUENCE(sq_contains, CONTAINS, "__contains__"),
    SEQUENCE(sq_concat, BINARY, "__add__"),
    SEQUENCE(sq_repeat, INDEX, "__mul__"),
    SEQUENCE(sq_inplace_concat, BINARY, "__iadd__"),
    SEQUENCE(sq_inplace_repeat, INDEX, "__imul__"),
    NUMBER(nb_add, BINARY, "__add__"),
    NUMBER(nb_subtract, BINARY, "__sub__"),
    NUMBER(nb_multiply, BINARY, "__mul__"),
    NUMBER(nb_remainder, BINARY, "__mod__"),
    NUMBER(nb_divmod, BINARY, "__divmod__"),
    NUMBER(nb_power, TERNARY, "__pow__"),
    NUMBER(nb_negative, UNARY, "__neg__"),
    NUMBER(nb_positive, UNARY, "__pos__"),
    NUMBER(nb_absolute, UNARY, "__abs__"),
    NUMBER(nb_bool, INQUIRY, "__bool__"),
    NUMBER(nb_invert, UNARY, "__invert__"),
    NUMBER(nb_lshift, BINARY, "__lshift__"),
    NUMBER(nb_rshift, BINARY, "__rshift__"),
    NUMBER(nb_and, BINARY, "__and__"),
    NUMBER(nb_xor, BINARY, "__xor__"),
    NUMBER(nb_or, BINARY, "__or__"),
    NUMBER(nb_int, UNARY, "__int__"),
    NUMBER(nb_float, UNARY, "__float__"),
    NUMBER(nb_index, UNARY, "__index__"),
    NUMBER(nb_inplace_add, BINARY, "__iadd__"),
    NUMBER(nb_inplace_subtract, BINARY, "__isub__"),
    NUMBER(nb_inplace_multiply, BINARY, "__imul__"),
    NUMBER(nb_inplace_remainder, BINARY, "__imod__"),
    NUMBER(nb_inplace_power, TERNARY, "__ipow__"),
    NUMBER(nb_inplace_lshift, BINARY, "__ilshift__"),
    NUMBER(nb_inplace_rshift, BINARY, "__irshift__"),
    NUMBER(nb_inplace_and, BINARY, "__iand__"),
    NUMBER(nb_inplace_xor, BINARY, "__ixor__"),
    NUMBER(nb_inplace_or, BINARY, "__ior__"),
    NUMBER(nb_floor_divide, BINARY, "__floordiv__"),
    NUMBER(nb_true_divide, BINARY, "__truediv__"),
    NUMBER(nb_inplace_floor_divide, BINARY, "__ifloordiv__"),
    NUMBER(nb_inplace_true_divide, BINARY, "__itruediv__"),
    NUMBER(nb_matrix_multiply, BINARY, "__matmul__"),
    NUMBER(nb_inplace_matrix_multiply, BINARY, "__imatmul__"),
    ASYNC(am_await, UNARY, "__await__"),
    ASYNC(am_aiter, UNARY, "__aiter__"),
    ASYNC(am_anext, UNARY, "__anext__"),
    TYPE(tp_vectorcall, FAST_KW, "__new__"),
};

#define N_SLOTS (sizeof slots / sizeof *slots)

/* Hooks of slots: types inherit them. */
struct known {
    extension_function original; /* NULL: free */
    const struct slot *slot;
    extension_function hook;
};

static inline uint64_t hash_of_known(const struct known *known)
{
    return ((uintptr_t)known->original + (size_t)(known->slot - slots)) * FT_HASH_FACTOR >> 32;
}

static inline bool is_known(const struct known *known)
{
    return known->original;
}

static inline bool is_same_known(const struct known *one, const struct known *other)
{
    return one->original == other->original && one->slot == other->slot;
}

FT_TABLE_TYPE(known_hooks, struct known);
FT_TABLE(known_hooks, struct known, 1024, hash_of_known, is_known, is_same_known)

static struct known_hooks known_hooks;

static extension_function known_hook(extension_function original, const struct slot *slot)
{
    return known_hooks.used ? known_hooks_at(&known_hooks, &(struct known){original, slot, NULL})->hook : NULL;
}

/* A slot's place, or NULL if the type has no such table. */
static extension_function *place_of(PyTypeObject *type, const struct slot *slot)
{
    char *table = (char *)type;
    if (slot->suite != IN_TYPE)
        table = *(char **)(table + suites[slot->suite].pointer);
    return table ? (extension_function *)(void *)(table + slot->offset) : NULL;
}

/* A slot for writing: a constant table is replaced. */
static extension_function *writable_place_of(PyTypeObject *type, const struct slot *slot)
{
    extension_function *place = place_of(type, slot);
    if (slot->suite == IN_TYPE || is_writable(place))
        return place;
    char **table = (char **)(void *)((char *)type + suites[slot->suite].pointer);
    void *copy = copy_of(*table, suites[slot->suite].bytes);
    if (!copy)
        return NULL;
    *table = copy;
    return place_of(type, slot);
}

/* Whether a type has a slot of its own: it is then among its attributes. */
static bool defines(PyTypeObject *type, const struct slot *slot)
{
    PyObject *own = PyDict_GetItemString(type->tp_dict, slot->name);
    if (slot->offset == offsetof(PyTypeObject, tp_new) && slot->suite == IN_TYPE)
        return own && PyCFunction_Check(own);
    if (slot->offset == offsetof(PyTypeObject, tp_vectorcall) && slot->suite == IN_TYPE)
        return true; /* it is never inherited */
    return own && Py_IS_TYPE(own, &PyWrapperDescr_Type) && PyDescr_TYPE(own) == type;
}

static void hook_slot(PyTypeObject *type, const struct slot *slot, const char *prefix, const char *module)
{
    const extension_function *place = place_of(type, slot);
    const extension_function original = place ? *place : NULL;
    if (!original)
        return;
    extension_function hook = known_hook(original, slot);
    const bool is_call = slot->suite == IN_TYPE && slot->offset == offsetof(PyTypeObject, tp_call);
    if (!hook && prefix && owner_of(original) != INTERPRETER && is_in_scope(original, module) && defines(type, slot) &&
        known_hooks_make_room(&known_hooks) &&
        (hook = hook_or_count(slot->convention, original, prefix, slot->name, is_call))) {
        const struct known added = {original, slot, hook};
        *known_hooks_at(&known_hooks, &added) = added;
        known_hooks.used++;
    }
    extension_function *writable = hook ? writable_place_of(type, slot) : NULL;
    if (writable)
        *writable = hook;
}

/* The slot that a wrapper calls, by its place in a heap type; NULL if it is none of those here. */
static const struct slot *slot_of(const PyWrapperDescrObject *wrapper)
{
    for (size_t i = 0; i < N_SLOTS; i++) {
        const size_t begin = slots[i].suite == IN_TYPE ? 0 : suites[slots[i].suite].heap;
        if ((size_t)wrapper->d_base->offset == begin + slots[i].offset)
            return &slots[i];
    }
    return NULL;
}

/* Wrappers hold what was in the slot: subclasses that are made later take it from there. */
static void hook_wrappers(PyTypeObject *type)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &key, &value);) {
        if (!Py_IS_TYPE(value, &PyWrapperDescr_Type))
            continue;
        PyWrapperDescrObject *wrapper = (PyWrapperDescrObject *)value;
        const struct slot *slot = slot_of(wrapper);
        const extension_function hook = slot ? known_hook((extension_function)wrapper->d_wrapped, slot) : NULL;
        if (hook)
            wrapper->d_wrapped = (void *)(uintptr_t)hook;
    }
}

/* ---- types -------------------------------------------------------------------------------------------------------- */

struct seen {
    const PyTypeObject *type;
    const char *name; /* another type may come to lie where one was */
    uint32_t walk;    /* in which it was met last */
};

static inline uint64_t hash_of_seen(const struct seen *seen)
{
    return ft_hash_pointer(seen->type);
}

static inline bool is_seen(const struct seen *seen)
{
    return seen->type;
}

static inline bool is_same_seen(const struct seen *one, const struct seen *other)
{
    return one->type == other->type;
}

FT_TABLE_TYPE(seen_types, struct seen);
FT_TABLE(seen_types, struct seen, 4096, hash_of_seen, is_seen, is_same_seen)

static struct seen_types seen_types;
static uint32_t walk;

/* The entry of a type, which is added if there is none. NULL when out of memory. */
static struct seen *entry_of(const PyTypeObject *type)
{
    if (!seen_types_make_room(&seen_types))
        return NULL;
    struct seen *entry = seen_types_at(&seen_types, &(struct seen){.type = type});
    seen_types.used += !entry->type;
    entry->type = type;
    return entry;
}

/* "zlib" of "zlib.Compress", as text that is its caller's to free. Types that have no module, or only think so, are of
 * that which is being loaded. */
static char *module_of(const PyTypeObject *type, const char *loading)
{
    const char *end = strrchr(type->tp_name, '.');
    if (end && strncmp(type->tp_name, "builtins.", 9) != 0)
        return strndup(type->tp_name, (size_t)(end - type->tp_name));
    PyObject *own = PyDict_GetItemString(type->tp_dict, "__module__");
    const char *name = own && PyUnicode_Check(own) ? PyUnicode_AsUTF8(own) : NULL;
    PyErr_Clear();
    return strdup(name && strcmp(name, "builtins") != 0 ? name : loading ? loading : "builtins");
}

/* Cython's types are shared by the modules that it makes. Its functions are hooked one by one; its generators run where
 * somebody asks for the next value. */
static void hook_generators(PyTypeObject *type)
{
    for (size_t i = 0; i < N_SLOTS; i++)
        if (slots[i].suite == IN_TYPE && slots[i].offset == offsetof(PyTypeObject, tp_iternext))
            hook_slot(type, &slots[i], "cython.generator", "cython");
}

static void hook_type(PyTypeObject *type, const char *loading)
{
    char *module = module_of(type, loading);
    const char *last = strrchr(type->tp_name, '.');
    char *prefix = module ? (char *)joined(module, last ? last + 1 : type->tp_name) : NULL;
    if (prefix && last && strncmp(module, "_cython_", 8) == 0 && strcmp(last, ".generator") == 0) {
        hook_generators(type);
    } else if (prefix && !IS_AMONG(handing_on, module) && strncmp(module, "_cython_", 8) != 0) {
        const bool is_metatype = PyType_IsSubtype(type, &PyType_Type);
        hook_attributes(type, prefix, module);
        for (size_t i = 0; i < N_SLOTS && !is_metatype; i++)
            hook_slot(type, &slots[i], prefix, module);
    }
    free(module);
    free(prefix);
}

/* Slots that a type has from others, and wrappers. */
static void inherit(PyTypeObject *type)
{
    for (size_t i = 0; i < N_SLOTS; i++)
        hook_slot(type, &slots[i], NULL, "");
    hook_wrappers(type);
}

/* Adds the subclasses of a type to `all` that this walk has not met, and to `new` those that no walk has. */
static void collect(PyObject *type, PyObject *subclasses, PyObject *all, PyObject *new)
{
    PyObject *below = PyObject_CallOneArg(subclasses, type);
    for (Py_ssize_t i = 0; below && i < PyList_GET_SIZE(below); i++) {
        PyObject *one = PyList_GET_ITEM(below, i);
        const char *name = ((PyTypeObject *)one)->tp_name;
        struct seen *entry = entry_of((PyTypeObject *)one);
        if (!entry || entry->walk == walk)
            continue;
        if (entry->name != name)
            PyList_Append(new, one);
        entry->name = name;
        entry->walk = walk;
        PyList_Append(all, one);
    }
    Py_XDECREF(below);
    PyErr_Clear();
}

/* New types are looked at twice: those that inherit a slot once all that define one have their hooks. */
static void look_at_types(const char *loading)
{
    static PyObject *subclasses;
    PyObject *all = PyList_New(0), *new = PyList_New(0);
    if (!subclasses)
        subclasses = PyObject_GetAttrString((PyObject *)&PyType_Type, "__subclasses__");
    if (all && new && subclasses && PyList_Append(all, (PyObject *)&PyBaseObject_Type) == 0) {
        walk++;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all); i++)
            collect(PyList_GET_ITEM(all, i), subclasses, all, new);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(new); i++)
            hook_type((PyTypeObject *)PyList_GET_ITEM(new, i), loading);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(new); i++)
            inherit((PyTypeObject *)PyList_GET_ITEM(new, i));
    }
    Py_XDECREF(all);
    Py_XDECREF(new);
    PyErr_Clear();
}

/* ---- modules ------------------------------------------------------------------------------------------------------ */

/* Whether a function comes from another package: it is looked at there. */
static bool is_imported(PyObject *function, const char *module)
{
    PyObject *own = ((PyCFunctionObject *)function)->m_module;
    const char *name = own && PyUnicode_Check(own) ? PyUnicode_AsUTF8(own) : NULL;
    const size_t length = strcspn(module, ".");
    return name && (strncmp(name, module, length) != 0 || (name[length] != '.' && name[length] != '\0'));
}

static void hook_functions(PyObject *dict, const char *module)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
        if (PyCFunction_CheckExact(value) && !is_imported(value, module))
            hook_function(value, module, module);
    PyErr_Clear();
}

static bool is_on;

void extensions_module_loaded(PyObject *module, const char *name)
{
    if (!IS_AMONG(handing_on, name))
        hook_functions(PyModule_GetDict(module), name);
    if (is_on)
        look_at_types(name);
}

void extensions_init(void)
{
    is_on = true;
    look_at_types(NULL);
}
