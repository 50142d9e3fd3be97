/* Graphs, genomes, physics and solvers. Labelled after the recogniser was finished. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef int32_t vid;

struct graph {
    vid n;
    int64_t *offset;
    vid *adj;
    float *w;
};

struct list {
    struct item *first;
};

struct item {
    int count;
    struct item *link;
};

struct atom {
    double q[3], f[3];
    int kind;
};

struct level {
    int n;
    double *u, *b, *r, *diagonal;
};

static const double masses[8] = {1.008, 12.011, 14.007, 15.999, 18.998, 22.990, 30.974, 32.06};
static int8_t score_of[32][32];

void degrees(const struct graph *g, vid *degree)
{
    for (vid v = 0; v < g->n; v++)                            /* loop: parallel */
        degree[v] = (vid)(g->offset[v + 1] - g->offset[v]);   /* idiom: stencil */
}

void rank_step(const struct graph *g, const float *old, float *new)
{
    for (vid v = 0; v < g->n; v++) {                          /* loop: parallel */
        float in = 0;
        for (int64_t e = g->offset[v]; e < g->offset[v + 1]; e++) /* loop: reduction */
            in += old[g->adj[e]];                             /* idiom: gather (reduction) */
        new[v] = 0.15f + 0.85f * in;                          /* idiom: none */
    }
}

void weighted_step(const struct graph *g, const float *x, float *y)
{
    for (vid v = 0; v < g->n; v++) {                          /* loop: parallel */
        const vid *to = g->adj + g->offset[v];
        const float *weight = g->w + g->offset[v];
        int64_t edges = g->offset[v + 1] - g->offset[v];
        float sum = 0;
        for (int64_t e = 0; e < edges; e++)                   /* loop: reduction */
            sum += weight[e] * x[to[e]];                      /* idiom: sparse-product-csr (gather, reduction) */
        y[v] = sum;                                           /* idiom: none */
    }
}

void in_degrees(int64_t edges, const vid *head, int *degree)
{
    for (int64_t e = 0; e < edges; ++e)                       /* loop: reduction */
        degree[head[e]] += 1;                                 /* idiom: gather-modify-scatter */
}

void offsets(vid n, const int *degree, int64_t *offset)
{
    int64_t at = 0;
    for (vid v = 0; v < n; v++) {                             /* loop: recurrence */
        int64_t here = degree[v];
        offset[v] = at;                                       /* idiom: prefix-scan */
        at = at + here;
    }
    offset[n] = at;
}

void bucket(int64_t edges, const vid *tail, const vid *head, int64_t *next, vid *adj)
{
    for (int64_t e = 0; e < edges; e++) {                     /* loop: unknown */
        int64_t place = next[tail[e]]++;                      /* idiom: gather-modify-scatter */
        adj[place] = head[e];                                 /* idiom: scatter */
    }
}

vid representative(vid *up, vid v)
{
    vid top = v;
    while (up[top] != top)                                    /* loop: recurrence */
        top = up[top];                                        /* idiom: pointer-chase */
    return top;
}

vid frontier(vid n, const int *level, int now, vid *queue)
{
    vid tail = 0;
    for (vid v = 0; v < n; v++) {                             /* loop: recurrence */
        if (level[v] != now)
            continue;
        queue[tail] = v;                                      /* idiom: compaction */
        tail++;
    }
    return tail;
}

int total(const struct list *l)
{
    int sum = 0;
    for (const struct item *it = l->first; it; it = it->link) /* loop: recurrence, idiom: pointer-chase */
        sum += it->count;                                     /* idiom: reduction */
    return sum;
}

void relax_all(int edges, const vid *from, const vid *to, const double *length, const double *dist, double *next)
{
    for (int e = 0; e < edges; e++) {                         /* loop: reduction */
        double candidate = dist[from[e]] + length[e];
        if (candidate < next[to[e]])
            next[to[e]] = candidate;                          /* idiom: gather-modify-scatter (gather) */
    }
}

void align(int m, int n, const uint8_t *a, const uint8_t *b, int *h)
{
    for (int i = 1; i <= m; i++)                              /* loop: recurrence */
        for (int j = 1; j <= n; j++) {                        /* loop: recurrence */
            int here = h[(i - 1) * (n + 1) + j - 1] + (a[i - 1] == b[j - 1] ? 2 : -1);
            int up = h[(i - 1) * (n + 1) + j] - 1, left = h[i * (n + 1) + j - 1] - 1;
            int best = here > up ? here : up;
            h[i * (n + 1) + j] = best > left ? best : left;   /* idiom: stencil (recurrence) */
        }
}

int similarity(const uint8_t *a, const uint8_t *b, int n)
{
    int sum = 0;
    for (int k = 0; k < n; k++)                               /* loop: reduction */
        sum += score_of[a[k] & 31][b[k] & 31];                /* idiom: table-lookup (reduction) */
    return sum;
}

void complement(char *dna, int n)
{
    for (int k = 0; k < n; k++)                               /* loop: parallel */
        switch (dna[k]) {
        case 'A': dna[k] = 'T'; break;                        /* idiom: stream */
        case 'T': dna[k] = 'A'; break;                        /* idiom: stream */
        }
}

uint64_t kmer(const char *dna, int k)
{
    uint64_t code = 0;
    for (int i = 0; i < k; i++)                               /* loop: recurrence */
        code = code << 2 | ((uint64_t)dna[i] >> 1 & 3);       /* idiom: recurrence */
    return code;
}

void kinetic(const struct atom *atoms, int n, double dt, double *energy)
{
    double sum = 0;
    for (int a = 0; a < n; a++)                               /* loop: reduction */
        for (int d = 0; d < 3; d++)                           /* loop: reduction */
            sum += atoms[a].f[d] * atoms[a].f[d] * dt;        /* idiom: reduction */
    *energy = sum;
}

void kick(struct atom *atoms, int n, double dt)
{
    for (struct atom *a = atoms; a != atoms + n; ++a)         /* loop: parallel */
        for (int d = 0; d < 3; d++)                           /* loop: parallel */
            a->q[d] += dt * a->f[d];                          /* idiom: stream */
}

double mass(const struct atom *atoms, int n)
{
    double sum = 0;
    for (int a = 0; a < n; a++)                               /* loop: reduction */
        sum += masses[atoms[a].kind];                         /* idiom: table-lookup (reduction) */
    return sum;
}

void pair_forces(int pairs, const int (*pair)[2], const double *force, double *total_force)
{
    for (int p = 0; p < pairs; p++) {                         /* loop: reduction */
        total_force[pair[p][0]] += force[p];                  /* idiom: gather-modify-scatter */
        total_force[pair[p][1]] += -force[p];                 /* idiom: gather-modify-scatter */
    }
}

void smooth(struct level *l, double omega)
{
    for (int i = 0; i < l->n; i++)                            /* loop: parallel */
        l->u[i] += omega * l->r[i] / l->diagonal[i];          /* idiom: stream */
}

void residual(const struct level *l, double h2)
{
    for (int i = 1; i < l->n - 1; i++)                        /* loop: parallel */
        l->r[i] = l->b[i] - (2 * l->u[i] - l->u[i - 1] - l->u[i + 1]) / h2; /* idiom: stencil */
}

void thomas_forward(int n, const double *a, const double *b, double *c, double *d)
{
    for (int i = 1; i < n; i++) {                             /* loop: recurrence */
        double m = 1.0 / (b[i] - a[i] * c[i - 1]);
        c[i] *= m;                                            /* idiom: recurrence */
        d[i] = (d[i] - a[i] * d[i - 1]) * m;                  /* idiom: recurrence */
    }
}

void cholesky_column(int n, int k, double l[n][n])
{
    for (int i = k + 1; i < n; i++)                           /* loop: parallel */
        for (int j = 0; j < k; j++)                           /* loop: reduction */
            l[i][k] -= l[i][j] * l[k][j];                     /* idiom: matrix-vector-product (reduction) */
}

void covariance(int samples, int n, const double *x, double *c)
{
    for (int s = 0; s < samples; s++)                         /* loop: reduction */
        for (int i = 0; i < n; i++)                           /* loop: parallel */
            for (int j = 0; j < n; j++)                       /* loop: parallel */
                c[i * n + j] += x[s * n + i] * x[s * n + j];  /* idiom: matrix-product */
}

void layer(int outputs, int inputs, const float weight[outputs][inputs], const float *in, float *out)
{
    for (int o = 0; o < outputs; o++)                         /* loop: parallel */
        for (int i = 0; i < inputs; i++)                      /* loop: reduction */
            out[o] += weight[o][i] * in[i];                   /* idiom: matrix-vector-product (reduction) */
}

void gnome_pass(int n, unsigned *key)
{
    for (int i = 0; i + 1 < n; ++i)                           /* loop: recurrence */
        if (key[i + 1] < key[i]) {
            unsigned low = key[i + 1];
            key[i + 1] = key[i];                              /* idiom: sort */
            key[i] = low;
        }
}

void hadamard_stage(int n, int stride, float *re)
{
    for (int block = 0; block < n; block += 2 * stride)       /* loop: unjudged */
        for (int k = block; k < block + stride; ++k) {        /* loop: parallel */
            float sum = re[k] + re[k + stride];
            re[k + stride] = re[k] - re[k + stride];          /* idiom: fft-butterfly */
            re[k] = sum;
        }
}

bool any_negative(const int *values, int n)
{
    bool found = false;
    for (int k = 0; k < n; k++)                               /* loop: reduction */
        found |= values[k] < 0;                               /* idiom: reduction */
    return found;
}
