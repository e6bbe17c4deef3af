/* The extension mpi_gt.kernels._c. */
#define KERNELS_MODULE
#include "kernels.h"

#define VERSION 5 /* as in __init__.py */
#define FUNCTION(name, text) \
    { #name, (PyCFunction)(void (*)(void))kernels_##name, METH_FASTCALL, text }

static PyMethodDef functions[] = {
    FUNCTION(advance, "advance(step, node, mix, grad, last, t, states) -> t"),
    FUNCTION(uniform, "uniform(out, seeds, word, block, row)"),
    FUNCTION(slopes, "slopes(z, labels, scale, loss, correct)"),
    FUNCTION(stamp, "stamp(stamps, code)"),
    FUNCTION(local_metrics, "local_metrics(x, xbar, sent, columns, vectors, rest)"),
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_c", "Compiled kernels; see the package's docstring.", -1, functions,
    NULL, NULL, NULL, NULL};

static PyTypeObject *types[] = {
    &ProgramType, &ReplayType, &TimedType,      &NodeCountersType, &TransferType, &PendingMixType,
    &MixType,     &WindowType, &NextGradientType, &HuberType,    NULL};

PyMODINIT_FUNC PyInit__c(void) {
    import_array();
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "VERSION", VERSION)) Py_CLEAR(module);
    for (PyTypeObject **type = types; module && *type; type++)
        if (PyModule_AddType(module, *type)) Py_CLEAR(module);
    return module;
}
