/* The extension mpi_gt.kernels._c. */
#define KERNELS_MODULE
#include "kernels.h"

#define FUNCTION(name, text) \
    { #name, (PyCFunction)(void (*)(void))kernels_##name, METH_FASTCALL, text }

static PyMethodDef functions[] = {
    FUNCTION(pack, "pack(header, slots, iteration, stop_at, vectors) -> whether it was done"),
    FUNCTION(agree, "agree(headers, header) -> whether all rows are the header"),
    FUNCTION(combine, "combine(received, own, weights, place) -> the weighted sum"),
    FUNCTION(uniform, "uniform(out, seeds, word, block, row)"),
    FUNCTION(huber, "huber(x, columns, rows, theta, noise, threshold, scale) -> the gradient"),
    FUNCTION(slopes, "slopes(z, labels, scale, loss, correct)"),
    FUNCTION(stamp, "stamp(stamps, code)"),
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_c", "Compiled kernels; see the package's docstring.", -1, functions,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__c(void) {
    import_array();
    if (PyType_Ready(&ProgramType) || PyType_Ready(&ReplayType) || PyType_Ready(&WatchedType))
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddObjectRef(module, "Program", (PyObject *)&ProgramType) ||
        PyModule_AddObjectRef(module, "Replay", (PyObject *)&ReplayType) ||
        PyModule_AddObjectRef(module, "Watched", (PyObject *)&WatchedType)) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
