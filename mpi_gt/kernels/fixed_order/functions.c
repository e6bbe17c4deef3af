/* exp, log, erf and the normal quantile by additions, multiplications, divisions and square roots
   alone, whose results every processor gives: those of the C library differ in the last place
   between processors with and without fused multiplication. */
#include "../kernels.h"
#include <math.h>
#include <stdint.h>

/* Return exp(x) for x <= 0, to about two units in the last place; 0 below -700. As in gradients/cross_entropy.c. */
double fixed_exp(double x) {
    static const double inverse[] = {
        1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0,
        1 / 40320.0,      1 / 5040.0,      1 / 720.0,      1 / 120.0,     1 / 24.0,
        1 / 6.0,          0.5,             1,              1};
    if (x != x || x > 0) return x != x ? x : 1;
    if (x < -700) return 0;
    double shifted = x * 1.4426950408889634 + 0x1.8p52, k = shifted - 0x1.8p52, power;
    double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33, p = inverse[0];
    for (int i = 1; i < 14; i++) p = p * r + inverse[i];
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* Return log(x), to a unit in the last place: x = 2^k m with m in [sqrt(1/2), sqrt(2)), and
   log(m) = 2 artanh(s) with s = (m - 1) / (m + 1). */
double fixed_log(double x) {
    if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
    if (x > 1.7976931348623157e308) return x;
    int k = 0;
    if (x < 2.2250738585072014e-308) x *= 0x1p54, k = -54;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    k += (int)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) m *= 0.5, k++;
    double f = m - 1, s = f / (2 + f), z = s * s, sum = 1 / 23.0;
    for (int i = 21; i >= 3; i -= 2) sum = sum * z + 1.0 / i;
    double half = 0.5 * f * f, rest = s * (half + 2 * z * sum); /* log(1 + f) = f - half + rest */
    return k * 0x1.62e42fee00000p-1 - ((half - (rest + k * 0x1.a39ef35793c76p-33)) - f);
}

/* Return erf(x): 2 exp(-x^2) / sqrt(pi) times the sum of 2^n x^(2n+1) / (1 3 ... (2n+1)), whose
   terms are all positive. */
double fixed_erf(double x) {
    double size = fabs(x);
    if (x != x) return x;
    if (size > 6) return x > 0 ? 1 : -1;
    double term = size, sum = 0;
    for (int n = 1; sum + term != sum; n++) {
        sum += term;
        term = term * (2 * size * size) / (2 * n + 1);
    }
    sum = sum * fixed_exp(-size * size) * 1.1283791670955126;
    sum = MINIMUM(sum, 1);
    return x < 0 ? -sum : sum;
}

static double ratio(const double *up, const double *down, double r) {
    double top = up[7], bottom = down[7];
    for (int i = 6; i >= 0; i--) top = top * r + up[i], bottom = bottom * r + down[i];
    return top / bottom;
}

/* Return the standard normal quantile of p, to about 1e-16 (Wichura 1988, AS 241). */
double fixed_quantile(double p) {
    static const double a[] = {3.3871328727963666080e0, 1.3314166789178437745e+2,
                               1.9715909503065514427e+3, 1.3731693765509461125e+4,
                               4.5921953931549871457e+4, 6.7265770927008700853e+4,
                               3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[] = {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2,
                               5.3941960214247511077e+3, 2.1213794301586595867e+4,
                               3.9307895800092710610e+4, 2.8729085735721942674e+4,
                               5.2264952788528545610e+3};
    static const double c[] = {1.42343711074968357734e0, 4.63033784615654529590e0,
                               5.76949722146069140550e0, 3.64784832476320460504e0,
                               1.27045825245236838258e0, 2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[] = {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
                               6.89767334985100004550e-1, 1.48103976427480074590e-1,
                               1.51986665636164571966e-2, 5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
    static const double e[] = {6.65790464350110377720e0, 5.46378491116411436990e0,
                               1.78482653991729133580e0, 2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[] = {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                               1.48753612908506148525e-2, 7.86869131145613259100e-4,
                               1.84631831751005468180e-5, 1.42151175831644588870e-7,
                               2.04426310338993978564e-15};
    if (!(p > 0 && p < 1)) return p != p ? p : p <= 0 ? -INFINITY : INFINITY;
    double q = p - 0.5, z;
    if (fabs(q) <= 0.425) return q * ratio(a, b, 0.180625 - q * q);
    double r = sqrt(-fixed_log(q < 0 ? p : 1 - p));
    z = r <= 5 ? ratio(c, d, r - 1.6) : ratio(e, f, r - 5);
    return q < 0 ? -z : z;
}

/* elementary(kind, x): return exp (kind 0; of x <= 0), log (1), erf (2) or the normal quantile (3)
   of each entry of a float64 array. */
PyObject *kernels_elementary(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static double (*const functions[])(double) = {fixed_exp, fixed_log, fixed_erf, fixed_quantile};
    long kind = count == 2 ? PyLong_AsLong(arguments[0]) : -1;
    if (PyErr_Occurred()) return NULL;
    PyArrayObject *x = count == 2 ? (PyArrayObject *)arguments[1] : NULL;
    if (kind < 0 || kind > 3 || !is_plain((PyObject *)x) || PyArray_TYPE(x) != NPY_DOUBLE) {
        PyErr_SetString(PyExc_ValueError, "elementary takes a kind and a float64 array");
        return NULL;
    }
    PyArrayObject *made =
        (PyArrayObject *)PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), NPY_DOUBLE);
    if (!made) return NULL;
    const double *from = PyArray_DATA(x);
    double *to = PyArray_DATA(made);
    for (npy_intp i = 0; i < PyArray_SIZE(x); i++) to[i] = functions[kind](from[i]);
    return (PyObject *)made;
}
