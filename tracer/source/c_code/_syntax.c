/* Python's face of syntax tables. See syntax.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/source/c_code/syntax.h"

typedef struct {
    PyObject_HEAD
    CXIndex index;
    CXTranslationUnit unit;
    struct ft_syntax *syntax;
} Unit;

static PyObject *text_object(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *string_object(CXString string)
{
    const char *text = clang.getCString(string);
    PyObject *made = text_object(text ? text : "");
    clang.disposeString(string);
    return made;
}

static PyObject *file_name_object(CXString string)
{
    const char *text = clang.getCString(string);
    PyObject *made = PyUnicode_DecodeFSDefault(text ? text : "");
    clang.disposeString(string);
    return made;
}

static PyObject *raised(enum ft_wrong wrong)
{
    if (wrong == FT_TOO_LARGE)
        PyErr_SetString(PyExc_OverflowError, "the function is too large");
    else
        PyErr_NoMemory();
    return NULL;
}

static PyObject *bind(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *path;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    const char *wrong = libclang_bind(path);
    if (wrong) {
        PyErr_SetString(PyExc_ImportError, wrong);
        return NULL;
    }
    Py_RETURN_NONE;
}

static void unit_dealloc(Unit *self)
{
    if (self->syntax)
        ft_syntax_free(self->syntax);
    if (self->unit)
        clang.disposeTranslationUnit(self->unit);
    if (self->index)
        clang.disposeIndex(self->index);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Arguments, then the path, as the bytes that the file system has: names need not be UTF-8. */
static PyObject *encoded_texts(PyObject *path, PyObject *arguments)
{
    const Py_ssize_t number = PyTuple_GET_SIZE(arguments);
    PyObject *made = PyTuple_New(number + 1);
    for (Py_ssize_t i = 0; made && i <= number; i++) {
        PyObject *bytes = NULL;
        if (PyUnicode_FSConverter(i < number ? PyTuple_GET_ITEM(arguments, i) : path, &bytes))
            PyTuple_SET_ITEM(made, i, bytes);
        else
            Py_CLEAR(made);
    }
    return made;
}

static int unit_init(Unit *self, PyObject *args, PyObject *Py_UNUSED(named))
{
    PyObject *path, *arguments;
    unsigned options;
    if (!PyArg_ParseTuple(args, "UO!I", &path, &PyTuple_Type, &arguments, &options))
        return -1;
    if (!clang.createIndex || self->index) {
        PyErr_SetString(PyExc_RuntimeError, "libclang is not bound");
        return -1;
    }
    PyObject *encoded = encoded_texts(path, arguments);
    const Py_ssize_t number = PyTuple_GET_SIZE(arguments);
    const char **texts = PyMem_Calloc((size_t)number + 1, sizeof *texts);
    if (!encoded || !texts) {
        Py_XDECREF(encoded);
        PyMem_Free(texts);
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i <= number; i++)
        texts[i] = PyBytes_AS_STRING(PyTuple_GET_ITEM(encoded, i));
    int code;
    Py_BEGIN_ALLOW_THREADS
    self->index = clang.createIndex(1, 0);
    code = clang.parseTranslationUnit2(self->index, texts[number], texts, (int)number, NULL, 0, options, &self->unit);
    Py_END_ALLOW_THREADS
    PyMem_Free(texts);
    Py_DECREF(encoded);
    if (code || !self->unit) {
        static const char *const names[] = {"", "it failed", "it crashed", "its arguments are invalid",
                                            "the syntax cannot be read"};
        PyErr_Format(PyExc_RuntimeError, "%s", names[code > 0 && code < 5 ? code : 1]);
        return -1;
    }
    self->syntax = ft_syntax_new(self->unit);
    if (!self->syntax) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static PyObject *unit_diagnostics(Unit *self, PyObject *Py_UNUSED(unused))
{
    PyObject *list = PyList_New(0);
    const unsigned number = clang.getNumDiagnostics(self->unit);
    for (unsigned i = 0; list && i < number; i++) {
        CXDiagnostic diagnostic = clang.getDiagnostic(self->unit, i);
        CXFile file;
        unsigned line = 0, column, offset;
        clang.getExpansionLocation(clang.getDiagnosticLocation(diagnostic), &file, &line, &column, &offset);
        PyObject *item = Py_BuildValue(
            "(iNINI)", clang.getDiagnosticSeverity(diagnostic), string_object(clang.getDiagnosticSpelling(diagnostic)),
            line, file ? file_name_object(clang.getFileName(file)) : PyUnicode_FromString(""), column);
        clang.disposeDiagnostic(diagnostic);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *unit_skipped(Unit *self, PyObject *Py_UNUSED(unused))
{
    PyObject *list = PyList_New(0);
    CXSourceRangeList *skipped = clang.getAllSkippedRanges(self->unit);
    for (unsigned i = 0; list && skipped && i < skipped->number; i++) {
        const CXSourceLocation start = clang.getRangeStart(skipped->ranges[i]);
        CXFile file;
        unsigned first = 0, last = 0;
        if (clang.Location_isInSystemHeader(start))
            continue;
        clang.getExpansionLocation(start, &file, &first, NULL, NULL);
        clang.getExpansionLocation(clang.getRangeEnd(skipped->ranges[i]), NULL, &last, NULL, NULL);
        if (!file)
            continue;
        PyObject *item = Py_BuildValue("(NII)", file_name_object(clang.getFileName(file)), first, last);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (skipped)
        clang.disposeSourceRangeList(skipped);
    return list;
}

static PyObject *unit_roots(Unit *self, PyObject *Py_UNUSED(unused))
{
    const int *roots;
    size_t number;
    const enum ft_wrong wrong = ft_syntax_roots(self->syntax, &roots, &number);
    if (wrong)
        return raised(wrong);
    PyObject *list = PyList_New((Py_ssize_t)number);
    for (size_t i = 0; list && i < number; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromLong(roots[i]));
    return list;
}

static PyObject *value_object(const struct ft_syntax *syntax, const struct ft_node *node)
{
    switch (node->value_kind) {
    case FT_INTEGER: return PyLong_FromLongLong(node->value.integer);
    case FT_UNSIGNED: return PyLong_FromUnsignedLongLong(node->value.unsigned_integer);
    case FT_NUMBER: return PyFloat_FromDouble(node->value.number);
    case FT_TEXT: return text_object(ft_syntax_text(syntax, node->value.text));
    case FT_NO_VALUE: break;
    }
    Py_RETURN_NONE;
}

static PyObject *unit_walk(Unit *self, PyObject *args)
{
    int declaration;
    Py_ssize_t most_nodes;
    size_t number;
    if (!PyArg_ParseTuple(args, "in", &declaration, &most_nodes))
        return NULL;
    ft_syntax_declarations(self->syntax, &number);
    if (declaration < 0 || (size_t)declaration >= number || most_nodes < 1) {
        PyErr_SetString(PyExc_ValueError, "no such declaration");
        return NULL;
    }
    const enum ft_wrong wrong = ft_syntax_walk(self->syntax, declaration, (size_t)most_nodes);
    if (wrong)
        return raised(wrong);
    const struct ft_node *nodes = ft_syntax_nodes(self->syntax, &number);
    enum { NUM_COLUMNS = 12 };
    PyObject *columns = PyTuple_New(NUM_COLUMNS);
    for (int column = 0; columns && column < NUM_COLUMNS; column++) {
        PyObject *list = PyList_New((Py_ssize_t)number);
        if (!list) {
            Py_CLEAR(columns);
            break;
        }
        for (size_t i = 0; i < number; i++) {
            const struct ft_node *n = &nodes[i];
            const int values[NUM_COLUMNS - 1] = {n->kind,       n->operation,   n->end,  n->type,
                                                 n->conversion, n->declaration, n->line, n->column,
                                                 n->last_line,  n->last_column, n->file};
            PyObject *value =
                column < NUM_COLUMNS - 1 ? PyLong_FromLong(values[column]) : value_object(self->syntax, n);
            if (!value) {
                Py_DECREF(list);
                Py_CLEAR(columns);
                return NULL;
            }
            PyList_SET_ITEM(list, (Py_ssize_t)i, value);
        }
        PyTuple_SET_ITEM(columns, column, list);
    }
    return columns;
}

static PyObject *unit_types(Unit *self, PyObject *args)
{
    Py_ssize_t first;
    size_t number;
    if (!PyArg_ParseTuple(args, "n", &first))
        return NULL;
    const struct ft_type *types = ft_syntax_types(self->syntax, &number);
    PyObject *list = PyList_New(0);
    for (size_t i = first > 0 ? (size_t)first : 0; list && i < number; i++) {
        const struct ft_type *t = &types[i];
        PyObject *item = Py_BuildValue("(iLiLINiii)", t->kind, t->bytes, t->inner, t->length, t->flags,
                                       text_object(ft_syntax_text(self->syntax, t->spelling)), t->declaration,
                                       t->arguments[0], t->arguments[1]);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *unit_declarations(Unit *self, PyObject *args)
{
    Py_ssize_t first;
    size_t number;
    if (!PyArg_ParseTuple(args, "n", &first))
        return NULL;
    const struct ft_declaration *declarations = ft_syntax_declarations(self->syntax, &number);
    PyObject *list = PyList_New(0);
    for (size_t i = first > 0 ? (size_t)first : 0; list && i < number; i++) {
        const struct ft_declaration *d = &declarations[i];
        PyObject *item =
            Py_BuildValue("(iNNiiiIiiiiiL)", d->kind, text_object(ft_syntax_text(self->syntax, d->name)),
                          text_object(ft_syntax_text(self->syntax, d->full_name)), d->type, d->parent, d->storage,
                          d->flags, d->line, d->last_line, d->file, d->definition, d->template, d->value);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static int field_visitor(CXCursor cursor, void *list)
{
    PyObject *name = string_object(clang.getCursorSpelling(cursor));
    const int added = name ? PyList_Append(list, name) : -1;
    Py_XDECREF(name);
    return added < 0 ? VISIT_BREAK : 1;
}

static PyObject *unit_fields(Unit *self, PyObject *args)
{
    int declaration;
    size_t number;
    if (!PyArg_ParseTuple(args, "i", &declaration))
        return NULL;
    ft_syntax_declarations(self->syntax, &number);
    PyObject *list = PyList_New(0);
    if (list && declaration >= 0 && (size_t)declaration < number)
        ft_syntax_fields(self->syntax, declaration, field_visitor, list);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

static PyObject *unit_files(Unit *self, PyObject *Py_UNUSED(unused))
{
    PyObject *list = PyList_New(0);
    CXString name;
    for (size_t i = 0; list && ft_syntax_file(self->syntax, i, &name); i++) {
        PyObject *item = file_name_object(name);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *unit_save(Unit *self, PyObject *args)
{
    const char *path;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = clang.saveTranslationUnit(self->unit, path, 0);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(code == 0);
}

static PyMethodDef unit_methods[] = {
    {"diagnostics", (PyCFunction)unit_diagnostics, METH_NOARGS,
     "Severity, message, line, file and column of each diagnostic."},
    {"skipped", (PyCFunction)unit_skipped, METH_NOARGS,
     "Branches of the preprocessor that were not taken: file, line of the directive before and of the one behind."},
    {"roots", (PyCFunction)unit_roots, METH_NOARGS, "Declarations of the functions that the main file defines."},
    {"walk", (PyCFunction)unit_walk, METH_VARARGS, "The nodes of a declaration, as columns."},
    {"types", (PyCFunction)unit_types, METH_VARARGS, "The types from a number on."},
    {"declarations", (PyCFunction)unit_declarations, METH_VARARGS, "The declarations from a number on."},
    {"fields", (PyCFunction)unit_fields, METH_VARARGS, "Names of the members of a structure, by its declaration."},
    {"files", (PyCFunction)unit_files, METH_NOARGS, "Names of the files met so far; the main file is first."},
    {"save", (PyCFunction)unit_save, METH_VARARGS, "Writes a precompiled header; False: it has errors."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject unit_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "foretrace.tracer.source.c_code._syntax.Unit",
    .tp_doc = "A parsed translation unit: Unit(path, arguments, options).",
    .tp_basicsize = sizeof(Unit),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)unit_init,
    .tp_dealloc = (destructor)unit_dealloc,
    .tp_methods = unit_methods,
};

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "Binds libclang, the shared library at this path; once for a process."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "foretrace.tracer.source.c_code._syntax",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__syntax(void)
{
    if (PyType_Ready(&unit_type) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddObjectRef(made, "Unit", (PyObject *)&unit_type) < 0)
        Py_CLEAR(made);
    return made;
}
