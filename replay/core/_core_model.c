/* Python's face of the core model and the branch predictor. See core_model.h and branches.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "branches.h"
#include "core_model.h"

static bool whole(const Py_buffer *buffer, size_t element_bytes, const char *name)
{
    if ((size_t)buffer->len % element_bytes == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%s is no whole number of records", name);
    return false;
}

/* All that the core indexes with is checked here: it comes from a signature's file. */
static const char *check(const struct ft_core_program *program, const struct ft_core_path *path, size_t n_instructions,
                         size_t n_registers, size_t n_accesses)
{
    for (size_t i = 0; i < n_registers; i++)
        if (program->registers[i] >= FT_NUM_REGISTERS)
            return "a register has no such number";
    for (size_t b = 0; b < program->n_blocks; b++) {
        const struct ft_core_block *block = &program->blocks[b];
        if ((size_t)block->first + block->n_instructions > n_instructions ||
            (size_t)block->first_operation + block->n_operations > program->n_operations)
            return "a block has more instructions or operations than there are";
        for (uint32_t i = block->first; i < block->first + block->n_instructions; i++) {
            const struct ft_instruction *one = &program->instructions[i];
            if ((size_t)one->registers + one->n_reads + one->n_addresses + one->n_writes > n_registers ||
                one->load >= (int64_t)block->n_operations || one->store >= (int64_t)block->n_operations ||
                one->unit >= FT_NUM_UNITS || one->cause >= FT_NUM_CAUSES)
                return "an instruction refers to what does not exist";
        }
    }
    size_t accesses = 0;
    for (size_t i = 0; i < path->n_executions; i++) {
        if (path->blocks[i] >= program->n_blocks)
            return "a block runs that does not exist";
        accesses += program->blocks[path->blocks[i]].n_operations;
    }
    return accesses == n_accesses ? NULL : "a path has another number of accesses than its blocks";
}

enum {
    CORE,
    INSTRUCTIONS,
    REGISTERS,
    BLOCKS,
    OPERATIONS,
    EXECUTED,
    BRANCHES,
    DEPENDS,
    STORES,
    LINES,
    CYCLES,
    N_BUFFERS
};

static PyObject *run(PyObject *Py_UNUSED(module), PyObject *args)
{
    static const char *const names[N_BUFFERS] = {
        "core",     "instructions", "registers",       "blocks",         "operations", "path",
        "branches", "depends",      "store distances", "line distances", "cycles"};
    static const size_t sizes[N_BUFFERS] = {sizeof(struct ft_core),
                                            sizeof(struct ft_instruction),
                                            2,
                                            sizeof(struct ft_core_block),
                                            sizeof(struct ft_core_operation),
                                            4,
                                            1,
                                            2,
                                            2,
                                            2,
                                            8};
    Py_buffer b[N_BUFFERS];
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*y*y*y*y*w*", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &b[8],
                          &b[9], &b[10]))
        return NULL;
    const struct ft_core *core = b[CORE].buf;
    const size_t n_blocks = (size_t)b[BLOCKS].len / sizes[BLOCKS];
    const struct ft_core_program program = {
        b[INSTRUCTIONS].buf, b[REGISTERS].buf,   b[BLOCKS].buf,
        b[OPERATIONS].buf,   (uint32_t)n_blocks, (uint32_t)((size_t)b[OPERATIONS].len / sizes[OPERATIONS])};
    const struct ft_core_path path = {b[EXECUTED].buf, b[BRANCHES].buf, b[DEPENDS].buf, (size_t)b[EXECUTED].len / 4,
                                      b[STORES].buf,   b[LINES].buf};
    bool good = true, finished = false;
    for (int i = 0; i < N_BUFFERS && good; i++)
        good = whole(&b[i], sizes[i], names[i]);
    const char *wrong = NULL;
    if (good && ((size_t)b[CORE].len != sizes[CORE] || !(core->width > 0) || core->n_levels == 0 ||
                 core->n_levels > FT_MAX_LEVELS || core->decoded_ways == 0 ||
                 core->decoded_ways > FT_MAX_DECODED_WAYS || b[STORES].len != b[LINES].len ||
                 (size_t)b[BRANCHES].len != path.n_executions || (size_t)b[DEPENDS].len / 2 != path.n_executions ||
                 (size_t)b[CYCLES].len != 2 * n_blocks * FT_NUM_CAUSES * sizeof(double)))
        wrong = "the arrays do not fit together";
    if (good && !wrong)
        wrong = check(&program, &path, (size_t)b[INSTRUCTIONS].len / sizes[INSTRUCTIONS], (size_t)b[REGISTERS].len / 2,
                      (size_t)b[STORES].len / 2);
    if (good && !wrong) {
        Py_BEGIN_ALLOW_THREADS
        finished = ft_core_run(core, &program, &path, b[CYCLES].buf);
        Py_END_ALLOW_THREADS
        result = finished ? Py_NewRef(Py_None) : PyErr_NoMemory();
    } else if (good) {
        PyErr_SetString(PyExc_ValueError, wrong);
    }
    for (int i = 0; i < N_BUFFERS; i++)
        PyBuffer_Release(&b[i]);
    return result;
}

static PyObject *predict_branches(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer branches, missed;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*w*", &branches, &missed))
        return NULL;
    const size_t n = (size_t)branches.len / sizeof(struct ft_branch);
    if (whole(&branches, sizeof(struct ft_branch), "branches")) {
        if ((size_t)missed.len == n)
            result = ft_branches_predict(branches.buf, n, missed.buf) ? Py_NewRef(Py_None) : PyErr_NoMemory();
        else
            PyErr_SetString(PyExc_ValueError, "missed must have one byte for each branch");
    }
    PyBuffer_Release(&branches);
    PyBuffer_Release(&missed);
    return result;
}

/* CORE_FIGURES: (name, format, offset) of each member, as numpy.dtype wants them. */
static PyObject *core_figures(void)
{
#define FT_FORMAT(type) _Generic((type)0, double: "f8", uint32_t: "u4", uint8_t: "u1")
#define FT_ENTRY(type, name) {#name, FT_FORMAT(type), offsetof(struct ft_core, name)},
    static const struct {
        const char *name, *format;
        size_t offset;
    } members[] = {FT_CORE_FIGURES(FT_ENTRY)};
    const Py_ssize_t n = (Py_ssize_t)(sizeof members / sizeof members[0]);
    PyObject *found = PyTuple_New(n);
    for (Py_ssize_t i = 0; found && i < n; i++) {
        PyObject *one = Py_BuildValue("(ssn)", members[i].name, members[i].format, (Py_ssize_t)members[i].offset);
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, i, one);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS,
     "run(core, instructions, registers, blocks, operations, path, branches, ...): adds to cycles"},
    {"predict_branches", predict_branches, METH_VARARGS, "predict_branches(branches, missed): fills missed"},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    PyObject *figures = core_figures();
    if (figures == NULL || PyModule_AddObjectRef(module, "CORE_FIGURES", figures) < 0) {
        Py_XDECREF(figures);
        return -1;
    }
    Py_DECREF(figures);
    return PyModule_AddIntConstant(module, "CORE_BYTES", sizeof(struct ft_core)) < 0 ||
                   PyModule_AddIntConstant(module, "INSTRUCTION_BYTES", sizeof(struct ft_instruction)) < 0 ||
                   PyModule_AddIntConstant(module, "BLOCK_BYTES", sizeof(struct ft_core_block)) < 0 ||
                   PyModule_AddIntConstant(module, "OPERATION_BYTES", sizeof(struct ft_core_operation)) < 0 ||
                   PyModule_AddIntConstant(module, "BRANCH_BYTES", sizeof(struct ft_branch)) < 0 ||
                   PyModule_AddIntConstant(module, "NUM_CAUSES", FT_NUM_CAUSES) < 0 ||
                   PyModule_AddIntConstant(module, "NUM_REGISTERS", FT_NUM_REGISTERS) < 0 ||
                   PyModule_AddIntConstant(module, "MAX_LEVELS", FT_MAX_LEVELS) < 0 ||
                   PyModule_AddIntConstant(module, "DECODED_SETS", FT_DECODED_SETS) < 0 ||
                   PyModule_AddIntConstant(module, "MAX_DECODED_WAYS", FT_MAX_DECODED_WAYS) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_constants}, {0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, .m_name = "_core_model", .m_size = 0,
                                               .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__core_model(void)
{
    return PyModuleDef_Init(&module_definition);
}
