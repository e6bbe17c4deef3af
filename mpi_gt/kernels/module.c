/* The extension mpi_gt.kernels._c. */
#define KERNELS_MODULE
#include "kernels.h"

#define VERSION 12 /* of the interface; as in __init__.py */
#define FUNCTION(name, text) \
    { #name, (PyCFunction)(void (*)(void))kernels_##name, METH_FASTCALL, text }

static PyMethodDef functions[] = {
    FUNCTION(advance, "advance(step, node, mix, grad, last, t, states) -> t: take steps."),
    FUNCTION(uniform, "uniform(out, seeds, word, block, row): fill out with Philox numbers."),
    FUNCTION(slopes, "slopes(z, labels, scale, loss, correct, fixed): of the cross entropy."),
    FUNCTION(stamp, "stamp(stamps, code): append a code and the time."),
    FUNCTION(local_metrics,
             "local_metrics(x, xbar, sent, columns, vectors, state): one rank's share of metrics."),
    FUNCTION(mix_all, "mix_all(out, matrix, z): mix the vectors of all nodes, as their ranks do."),
    FUNCTION(multiply, "multiply(out, a, b, add): products of matrices in a fixed order."),
    FUNCTION(elementary, "elementary(kind, x): exp, log, erf or quantile, on any processor."),
    FUNCTION(encode, "encode(codec, z, payload, uniform): write the payload of a vector."),
    FUNCTION(decode, "decode(codec, payloads, out): write the vectors of payloads."),
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_c", "Compiled kernels; see mpi_gt.kernels.", -1, functions,
    NULL, NULL, NULL, NULL};

static PyTypeObject *types[] = {
    &ProgramType, &ReplayType, &TimedType,      &NodeCountersType, &TransferType, &PendingMixType,
    &MixType,     &WindowType, &NextGradientType, &HuberType,    &SoftmaxType, &WordsType,
    &CollectiveType,
    NULL};

PyMODINIT_FUNC PyInit__c(void) {
    import_array();
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "VERSION", VERSION)) Py_CLEAR(module);
    for (PyTypeObject **type = types; module && *type; type++)
        if (PyModule_AddType(module, *type)) Py_CLEAR(module);
    return module;
}
