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

UPDATES = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) void gather_forces(const int *node, const double *force, double *f, int n) {
  for (int i = 0; i < n; i++) {                                           /* collision */
    const int *at = node + 4 * i;
    f[at[0]] += force[4 * i];
    f[at[1]] += force[4 * i + 1];
    f[at[2]] -= force[4 * i + 2];
    f[at[3]] += force[4 * i + 3];
  }
}
__attribute__((noinline)) void seen(const int *node, const double *force, double *f, double *g, int n) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    const int *at = node + 4 * i;
    f[at[0]] += force[4 * i];
    f[at[1]] += force[4 * i + 1];
    g[i] = f[at[0]];
  }
}
__attribute__((noinline)) void mixed(const int *node, const double *force, double *f, int n) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    const int *at = node + 4 * i;
    f[at[0]] += force[4 * i];
    f[at[1]] *= force[4 * i + 1];
  }
}
int main(void) {
  int side = 30, n = (side - 1) * (side - 1), m = 0, *node = malloc(16 * n);
  double *force = malloc(32 * n), *f = calloc(side * side, 8), *g = calloc(4 * n, 8);
  for (int r = 0; r + 1 < side; r++)
    for (int c = 0; c + 1 < side; c++) {
      int at = r * side + c;
      node[m++] = at; node[m++] = at + 1; node[m++] = at + side + 1; node[m++] = at + side;
    }
  for (int i = 0; i < 4 * n; i++) force[i] = 1 + i % 3;
  gather_forces(node, force, f, n);
  seen(node, force, f, g, n);
  mixed(node, force, f, n);
  printf("%g %g\\n", f[5], g[7]);
  return 0;
}
"""
"""Unrolled updates, as of the corners of an element: compilers make one load and one store of each. What uses the
updated value for anything else, or updates by another operation, is a recurrence."""

RESETS = """
#include <stdio.h>
#include <stdlib.h>
#define B 16
__attribute__((noinline)) void rows(double *a, const double *b, const double *c, double *sum, int n) {
  for (int i = 0; i < n; i++) {                                           /* parallel */
    for (int k = 0; k < B; k++)
      for (int j = 0; j < B; j++) sum[j] += b[i * B + k] * c[k * B + j];
    for (int j = 0; j < B; j++) { a[i * B + j] -= sum[j]; sum[j] = 0.0; }
  }
}
__attribute__((noinline)) void flags(int *found, const int *x, int *y, int n) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    y[i] = found[0] + x[i];
    if (x[i] % 37 == 36) found[0] = 5;
  }
}
__attribute__((noinline)) void first(int *is_first, const int *x, int *y, int n) {
  for (int i = 0; i < n; i++) {                                           /* parallel */
    y[i] = x[i] + is_first[0];
    is_first[0] = 7;
  }
}
__attribute__((noinline)) void older(int *state, const int *x, int *y, int n) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    y[i] = x[i] + state[0];
    state[0] = state[0] / 2 + x[i];
  }
}
__attribute__((noinline)) void ahead(int *x, int *y, int n) {
  for (int i = 0; i + 1 < n; i++) {                                       /* recurrence */
    y[i] = x[i];
    x[i + 1] = x[i] == 3 ? 4 : 3;
  }
}
int main(void) {
  int n = 200;
  double *a = calloc(n * B, 8), *b = malloc(8 * n * B), *c = malloc(8 * B * B), *s = calloc(B, 8);
  int *x = malloc(4 * n), *y = malloc(4 * n), f[4] = {0, 0, 0, 0};
  for (int i = 0; i < n * B; i++) b[i] = i % 5;
  for (int i = 0; i < B * B; i++) c[i] = i % 3;
  for (int i = 0; i < n; i++) x[i] = i;
  rows(a, b, c, s, n);
  flags(f, x, y, n);
  first(f + 1, x, y, n);
  older(f + 2, x, y, n);
  ahead(x, y, n);
  printf("%g %d %d\\n", a[7], y[9], f[0] + f[1] + f[2]);
  return 0;
}
"""
"""A place that each iteration sets back to what never changes could be its own. One that is set now and then, or to
what changes, is a recurrence."""

SHIFTED = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) unsigned hashed(const unsigned *x, int n, unsigned h) {
  for (int i = 0; i < n; i++) {                                           /* recurrence */
    h ^= h << 5;
    h ^= x[i];
  }
  return h;
}
__attribute__((noinline)) int halved(const int *x, int n, int h) {
  for (int i = 0; i < n; i++)                                             /* recurrence */
    h = x[i] + (h >> 1);
  return h;
}
__attribute__((noinline)) long scaled(const int *x, int n, long h) {
  for (int i = 0; i < n; i++)                                             /* reduction */
    h += (long)x[i] << 3;
  return h;
}
int main(void) {
  int n = 500, *x = malloc(4 * n);
  for (int i = 0; i < n; i++) x[i] = i * 7;
  printf("%u %d %ld\\n", hashed((unsigned *)x, n, 3), halved(x, n, 5), scaled(x, n, 2));
  return 0;
}
"""
"""An instruction may shift an input before it combines it with others. If that is the older value, it is no
reduction."""

UNSET_SPILLED = """
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#define CLOBBER __asm__ volatile("" ::: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",\\
                                 "r14", "r15", "rbx", "rbp")
static inline int nearest(float x, const float *c, int k) {
  int at;
  float best = FLT_MAX;
  for (int j = 0; j < k; j++) {
    float s = (x - c[j]) * (x - c[j]);
    if (s < best) { best = s; at = j; }
  }
  return at;
}
__attribute__((noinline)) int assign(const float *x, float *c, int *m, int *size, float *sum, int n, int k) {
  int moved, rounds = 0;
  do {
    moved = 0;
    for (int i = 0; i < n; i++) {                                         /* reduction */
      int at = nearest(x[i], c, k);
      if (m[i] != at) moved++;
      m[i] = at;
      size[at]++;
      sum[at] += x[i];
    }
    for (int j = 0; j < k; j++) {
      if (size[j] > 0) c[j] = sum[j] / size[j];
      size[j] = 0; sum[j] = 0;
    }
    CLOBBER;
  } while (moved && ++rounds < 10);
  return rounds;
}
__attribute__((noinline)) void sticky(const float *x, const float *c, int *m, int n, int k, int rounds) {
  int at = 0;
  do {
    for (int i = 0; i < n; i++) {                                         /* recurrence */
      float best = 0.5f;
      for (int j = 0; j < k; j++) {
        float s = (x[i] - c[j]) * (x[i] - c[j]);
        if (s < best) { best = s; at = j; }
      }
      m[i] = at;
    }
    CLOBBER;
  } while (--rounds);
}
__attribute__((noinline)) void smoothed(const int *x, int *y, int n, int rounds) {
  int s = 7;
  do {
    for (int i = 0; i < n; i++) {                                         /* recurrence */
      s = (s * 3 + x[i]) >> 1;
      y[i] = s;
    }
    CLOBBER;
  } while (--rounds);
}
int main(void) {
  int n = 500, k = 7, *m = calloc(n, 4), *size = calloc(k, 4);
  float *x = malloc(4 * n), *c = malloc(4 * k), *sum = calloc(k, 4);
  for (int i = 0; i < n; i++) x[i] = (i * 7919L) % 1000;
  for (int i = 0; i < k; i++) c[i] = (i * 104729L) % 1000;
  printf("%d\\n", assign(x, c, m, size, sum, n, k));
  sticky(x, c, m, n, k, 4);
  smoothed(m, size, k, 4);
  return 0;
}
"""
"""A variable that nothing sets, spilled around the loop; next to it such that are set. For GCC on x86-64."""

FUSED = """
#pragma GCC target("fma")
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) void decayed(const int *key, const double *x, double *y, int n, double by) {
  for (int i = 0; i < n; i++)                                             /* recurrence */
    y[key[i]] = y[key[i]] * by + x[i];
}
__attribute__((noinline)) void summed(const int *key, const double *x, double *y, int n, double by) {
  for (int i = 0; i < n; i++)                                             /* collision */
    y[key[i]] += x[i] * by;
}
__attribute__((noinline)) void pairs(const int *key, const double *x, double *y, int n, double by) {
  for (int i = 0; i < n; i += 2) {                                        /* recurrence */
    y[key[i]] = y[key[i]] * by + x[i];
    y[key[i + 1]] = y[key[i + 1]] * by + x[i];
  }
}
int main(void) {
  int n = 400, *key = malloc(4 * n);
  double *x = malloc(8 * n), *y = calloc(n, 8);
  for (int i = 0; i < n; i++) { key[i] = i % 2 ? i / 2 + 1 : i / 2; x[i] = i % 5; }
  decayed(key, x, y, n, 0.5);
  summed(key, x, y, n, 0.5);
  pairs(key, x, y, n, 0.5);
  printf("%g\\n", y[9]);
  return 0;
}
"""
"""A fused instruction multiplies what it loads, or adds it. For GCC on x86-64."""

SET_BACK = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int longest_run(const unsigned short *x, int n) {
  int run = 0, longest = 0;
  for (int i = 1; i < n; i++) {                                           /* recurrence */
    run = x[i] == x[i - 1] ? run + 1 : 0;
    longest = run > longest ? run : longest;
  }
  return longest;
}
__attribute__((noinline)) long counted(const unsigned short *x, int n) {
  long sum = 0;
  for (int i = 0; i < n; i++)                                             /* reduction */
    if (x[i] % 7 != 3) sum += x[i];
  return sum;
}
int main(void) {
  int n = 500;
  unsigned short *x = malloc(2 * n);
  for (int i = 0; i < n; i++) x[i] = i * i / 7 % 3;
  printf("%d %ld\\n", longest_run(x, n), counted(x, n));
  return 0;
}
"""
"""A count that is set back to 0 now and then is a recurrence. One that is left as it is now and then is none."""
