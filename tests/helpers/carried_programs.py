"""Programs whose loops compilers made look serial. A loop's verdict stands on its line: `/* parallel */` and so on."""

TWO_UPDATES = """
#include <stdlib.h>
__attribute__((noinline)) void mark(char *mask, const int *first, const int *last, char *out, const int *edge, int n) {
  for (int t = 0; t < n; t++)                                             /* parallel */
    if (mask[t]) { mask[t] = 0; for (int i = first[t]; i < last[t]; i++) out[edge[i]] = 1; }
}
__attribute__((noinline)) long strides(const int *x, int *y, int n, int step) {
  long at = 0;
  for (int i = 0; i < n; i++) {                                           /* parallel */
    if (x[i] % 3 == 0) { at += step; continue; }
    y[at] = x[i]; at += step;
  }
  return at;
}
__attribute__((noinline)) int pack(const int *x, int *y, int n) {
  int k = 0;
  for (int i = 0; i < n; i++)                                             /* recurrence */
    if (x[i] % 3 == 0) y[k++] = x[i];
  return k;
}
__attribute__((noinline)) int uneven(const int *x, int *y, int n) {
  int k = 0;
  for (int i = 0; i < n; i++)                                             /* recurrence */
    if (x[i] % 3 == 0) { y[k] = x[i]; k += 1; } else { y[k] = -x[i]; k += 2; }
  return k;
}
int main(void) {
  int n = 2000, *f = malloc(4 * n), *l = malloc(4 * n), *e = malloc(16 * n), *y = calloc(4 * n, 8);
  char *m = malloc(n), *o = calloc(4 * n, 1);
  for (int i = 0; i < n; i++) {
    f[i] = 4 * i; l[i] = 4 * i + i % 5; m[i] = i % 3 == 0;
    for (int j = 0; j < 4; j++) e[4 * i + j] = 4 * i + j;
  }
  mark(m, f, l, o, e, n);
  return (strides(l, y, n, 3) + pack(l, y, n) + uneven(l, y, n) + o[5]) & 1;
}
"""
"""GCC repeats the update of a counter on each path. Packing and uneven steps look alike, but are recurrences."""

SPILLED = """
#include <stdlib.h>
__attribute__((noinline)) void tile(const double *a, double *b, int n, int m, double c0, double c1, double c2,
    double c3, double c4, double c5, double c6, double c7, int p, int q, int r, int s) {
  for (int k = 0; k < n; k++) {                                           /* parallel */
    int row = (k / p) * q, col = (k % r) * s;
    for (int i = 0; i < 16; i++)                                          /* parallel */
      for (int j = 0; j < 16; j++) {
        long at = (long)(row + i) * m + col + j;
        b[at] = c0 * a[at] + c1 * a[at + 1] + c2 * a[at + m] + c3 * a[at + m + 1] + c4 * a[at + 2 * m]
              + c5 * a[at + 2 * m + 1] + c6 * a[at + 3L * m] + c7 * a[at + 3L * m + 1] + (double)(row ^ col);
      }
  }
}
#define KEEP(x) __asm__ volatile("" : "+r"(x))
#define CLOBBER __asm__ volatile("" ::: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13")
__attribute__((noinline)) void crowded(const int *x, int *y, int n, long step, long other) {
  long at = 0, to = 0;
  KEEP(step);
  for (int i = 0; i < n; i++) {                                           /* parallel */
    if (x[at] == 7) { CLOBBER; at += step; to += other; continue; }
    y[to] = x[at] + 1;
    CLOBBER;
    at += step; to += other;
  }
}
__attribute__((noinline)) long smoothed(const int *x, int *y, int n, long a, long b) {
  long s = a;
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    CLOBBER;
    s = (s * b + x[i]) >> 1;
    CLOBBER;
    y[i] = s;
  }
  return s;
}
int main(void) {
  int N = 128, n = 1000;
  double *a = calloc((N + 8) * (N + 8), 8), *b = calloc((N + 8) * (N + 8), 8);
  int *x = calloc(n, 8), *y = calloc(n, 8);
  for (int i = 0; i < n; i++) x[2 * i] = i % 9;
  tile(a, b, N / 16 * (N / 16), N + 8, 1, 2, 3, 4, 5, 6, 7, 8, N / 16, 16, N / 16, 16);
  crowded(x, y, n, 2, 1);
  return (int)smoothed(x, y, n, 3, 5) & 1;
}
"""
"""Invariants and counters that are kept in the frame, as there are too few registers."""

PLACES = """
#include <stdlib.h>
__attribute__((noinline)) void nearest(const float *x, const float *c, int *m, int n, int k, int d) {
  for (int i = 0; i < n; i++) {                                           /* parallel */
    float best = 3e38f; int at = 0;
    for (int j = 0; j < k; j++) {                                         /* reduction */
      float s = 0;
      for (int l = 0; l < d; l++) { float t = x[i * d + l] - c[j * d + l]; s += t * t; }
      if (s < best) { best = s; at = j; }
    }
    m[i] = at;
  }
}
__attribute__((noinline)) int largest(const int *x, int n, int *value) {
  int best = x[0], at = 0;
  for (int i = 1; i < n; i++)                                             /* reduction */
    if (x[i] > best) { best = x[i]; at = i; }
  *value = best;
  return at;
}
__attribute__((noinline)) void corner(const double *x, int n, int *row, int *column, double *value) {
  double best = -1; int r = 0, c = 0;
  for (int i = 0; i < n; i++)                                             /* reduction */
    for (int j = 0; j < n; j++)                                           /* reduction */
      if (x[i * n + j] > best) { best = x[i * n + j]; r = i; c = j; }
  *row = r; *column = c; *value = best;
}
__attribute__((noinline)) void records(const int *x, int *y, int n) {
  int best = x[0];
  for (int i = 1; i < n; i++) {                                           /* recurrence */
    best = x[i] > best ? x[i] : best;
    y[i] = best;
  }
}
int main(void) {
  int n = 300, k = 5, d = 34, v, r, c, *m = calloc(n, 4), *z = malloc(4 * n * d);
  float *x = malloc(4 * n * d), *p = malloc(4 * k * d);
  double *w = malloc(8 * n * d), e;
  for (int i = 0; i < n * d; i++) { x[i] = (i * 7919L) % 1000; z[i] = (i * 7919L) % 1000; w[i] = x[i]; }
  for (int i = 0; i < k * d; i++) p[i] = (i * 104729L) % 1000;
  nearest(x, p, m, n, k, d);
  corner(w, 30, &r, &c, &e);
  int at = largest(z, n * d, &v);
  records(z, m, n);
  return (at + v + r + c + (int)e + m[7]) & 1;
}
"""
"""The place of the least or largest value goes with the value. What an iteration hands on to be stored is none."""

UNSET = """
#include <stdlib.h>
__attribute__((noinline)) void nearest(const float *x, const float *c, int *m, int n, int k) {
  int at;
  for (int i = 0; i < n; i++) {                                           /* parallel */
    float best = 3e38f;
    for (int j = 0; j < k; j++) {
      float s = (x[i] - c[j]) * (x[i] - c[j]);
      if (s < best) { best = s; at = j; }
    }
    m[i] = at;
  }
}
__attribute__((noinline)) void last(const int *x, int *m, int n) {
  int at;
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    if (x[i] % 3 == 0) at = x[i] * 5 + at / 2;
    m[i] = at;
  }
}
int main(void) {
  int n = 500, k = 7, *m = malloc(4 * n), *z = malloc(4 * n);
  float *x = malloc(4 * n), *c = malloc(4 * k);
  for (int i = 0; i < n; i++) { x[i] = (i * 7919L) % 1000; z[i] = i; }
  for (int i = 0; i < k; i++) c[i] = (i * 104729L) % 1000;
  nearest(x, c, m, n, k);
  last(z, m, n);
  return m[7] & 1;
}
"""
"""A variable that no iteration reads as another one left it, but that nothing sets in between on each path."""

_STEPS = " ".join(f"s = s * c[{k}] + a[i + {k}];" for k in range(200))
LONG_BODIES = (
    """
#include <stdlib.h>
__attribute__((noinline)) void blend(const double *a, const double *c, double *y, int n) {
  for (int i = 0; i < n; i++) {                                           /* parallel */
    double s = a[i];
    STEPS
    for (int j = 0; j < 20; j++)
      y[i * 20 + j] = s * c[j];
  }
}
__attribute__((noinline)) void scratch(const double *a, const double *c, double *w, double *y, int n) {
  for (int i = 0; i < n; i++) {                                           /* parallel */
    double s = a[i];
    w[0] = s; w[1] = s + c[0]; y[i] = s;
    STEPS
    y[i] += s + w[0] * w[1];
  }
}
__attribute__((noinline)) void chained(const double *a, const double *c, double *y, int n) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    double s = a[i];
    STEPS
    y[i + 1] = s + y[i] * c[3];
  }
}
int main(void) {
  int n = 50;
  double *a = calloc(n + 200, 8), *c = calloc(200, 8), *w = calloc(2, 8), *y = calloc(n * 20 + 1, 8);
  for (int k = 0; k < 200; k++) c[k] = 0.5 / (k + 1);
  blend(a, c, y, n);
  scratch(a, c, w, y, n);
  chained(a, c, y, n);
  return y[5] > 1e9;
}
"""
).replace("STEPS", _STEPS)
"""Bodies that are longer than what an emulator translates at a time. It cuts one that is entered, and one that begins
again at the loop's header, at other places."""

UNROLLED_UPDATES = """
#include <stdlib.h>
__attribute__((noinline)) void corners(const int *e, const double *h, double *f, int n) {
  for (int i = 0; i < n; i++) {                                           /* collision */
    const int *c = e + 4 * i;
    const double *v = h + 4 * i;
    f[c[0]] += v[0];
    f[c[1]] += v[1];
    f[c[2]] += v[2];
    f[c[3]] += v[3];
  }
}
__attribute__((noinline)) void degrees(const int *e, long *d, int n) {
  for (int i = 0; i < n; i++) {                                           /* collision */
    d[e[4 * i]]++;
    d[e[4 * i + 2]]++;
  }
}
__attribute__((noinline)) void mixed(const int *e, const double *h, double *f, int n) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    f[e[4 * i]] += h[i];
    f[e[4 * i + 2]] *= h[i + 1];
  }
}
__attribute__((noinline)) void used(const int *e, const double *h, double *f, double *out, int n) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    f[e[4 * i]] += h[i];
    out[i] = f[e[4 * i + 2]] += h[i + 1];
  }
}
__attribute__((noinline)) void taken(const int *e, const double *h, double *f, int n) {
  for (int i = 0; i < n; i++)                                             /* recurrence */
    f[e[4 * i + 2]] = f[e[4 * i]] + h[i];
}
int main(void) {
  int side = 16, n = 0, *e = calloc(4 * side * side, 4);
  double *h = calloc(4 * side * side + 1, 8), *f = calloc((side + 1) * (side + 1), 8), *out = calloc(side * side, 8);
  long *d = calloc((side + 1) * (side + 1), 8);
  for (int y = 0; y < side; y++)
    for (int x = 0; x < side; x++, n++) {
      int at = y * (side + 1) + x;
      e[4 * n] = at; e[4 * n + 1] = at + 1; e[4 * n + 2] = at + side + 2; e[4 * n + 3] = at + side + 1;
      h[4 * n] = h[4 * n + 1] = h[4 * n + 2] = h[4 * n + 3] = 0.001 * n;
    }
  corners(e, h, f, n);
  degrees(e, d, n);
  mixed(e, h, f, n);
  used(e, h, f, out, n);
  taken(e, h, f, n);
  return f[5] > 1e9 || d[3] > 9;
}
"""
"""Elements of a mesh that add to their corners. Values go from one update to another, and never come back."""
