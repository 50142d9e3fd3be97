/* Index arrays, sparse matrices, tables, chains and compactions. */
#include <stddef.h>
#include <stdint.h>

#define BINS 256
#define MAX(a, b) ((a) > (b) ? (a) : (b))

struct csr {
    int rows;
    const int *start, *column;
    const double *value;
};

struct node {
    double load;
    struct node *next;
};

struct tree {
    int key;
    struct tree *left, *right;
};

struct mesh {
    int triangles;
    int (*corner)[3];
    double *height, *force;
};

static const uint8_t bits_of_nibble[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
static uint32_t crc_table[256];

/* Gathers. */

void gathers(int n, double *a, const double *b, const int *at)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        a[i] = b[at[i]];                                      /* idiom: gather */
    for (int i = 0; i < n; i++) {                             /* loop: parallel */
        int place = at[i] - 1;
        double item = b[place];
        a[i] = 3.0 * item + 1.0;                              /* idiom: gather */
    }
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        *(a + i) = *(b + *(at + i));                          /* idiom: gather */
}

double gathered_total(int n, const double *b, const unsigned *at)
{
    double total = 0;
    const unsigned *end = at + n;
    while (at < end)                                          /* loop: reduction */
        total += b[*at++];                                    /* idiom: gather (reduction) */
    return total;
}

void two_levels(int n, float *a, const float *b, const int *inner, const int *outer)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        a[i] = b[outer[inner[i]]];                            /* idiom: gather */
}

void gather_fields(int n, struct mesh *m, double *mean)
{
    for (int t = 0; t < n; t++) {                             /* loop: parallel */
        const int *c = m->corner[t];
        mean[t] = (m->height[c[0]] + m->height[c[1]] + m->height[c[2]]) / 3; /* idiom: gather */
    }
}

void gather_in_place(int n, double *a, const int *at)
{
    for (int i = 0; i < n; i++)                               /* loop: unknown */
        a[i] = a[at[i]];                                      /* idiom: gather */
}

void gather_rows(int n, double (*a)[4], double (*b)[4], const int *at)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        for (int d = 0; d < 4; d++)                           /* loop: parallel */
            a[i][d] = b[at[i]][d];                            /* idiom: stream */
}

void no_gather(int n, double *a, const double *b, const int *at)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        a[i] = b[i] + at[i];                                  /* idiom: stream */
}

/* A segment of a larger array: in the loop over k its start stands still. */
void scale_segments(int rows, const int *start, const int *length, double *a)
{
    for (int r = 0; r < rows; r++)                            /* loop: reduction */
        for (int k = 0; k < length[r]; k++)                   /* loop: parallel */
            a[start[r] + k] *= 2.0;                           /* idiom: stream */
}

void copy_segments(int rows, const int *start, double *out, const double *in)
{
    for (int r = 0; r < rows; r++)                            /* loop: unjudged */
        for (int k = start[r]; k < start[r + 1]; k++)         /* loop: parallel */
            out[k] = in[k] + 1.0;                             /* idiom: stream */
}

/* Scatters. */

void scatters(int n, double *a, const double *b, const int *at)
{
    for (int i = 0; i < n; i++)                               /* loop: unknown */
        a[at[i]] = b[i];                                      /* idiom: scatter */
    for (const double *end = b + n; b != end; ++b, ++at)      /* loop: unknown */
        if (*at >= 0)
            a[*at] = 2.0 * *b;                                /* idiom: scatter */
}

void permute(int n, int *out, const int *in, const int *to, const int *from)
{
    for (int i = 0; i < n; i++)                               /* loop: unknown */
        out[to[i]] = in[from[i]];                             /* idiom: scatter (gather) */
}

void invert(int n, int *inverse, const int *permutation)
{
    for (int i = 0; i < n; i++)                               /* loop: unknown */
        inverse[permutation[i]] = i;                          /* idiom: scatter */
}

void mark(int n, char *used, const struct mesh *m)
{
    for (int t = 0; t < n; t++)                               /* loop: unjudged */
        for (int c = 0; c < 3; c++)                           /* loop: unjudged */
            used[m->corner[t][c]] = 1;                        /* idiom: scatter */
}

/* Histograms and assemblies. */

void histogram(size_t n, unsigned *count, const unsigned char *data)
{
    for (size_t i = 0; i < n; i++)                            /* loop: reduction */
        count[data[i]]++;                                     /* idiom: gather-modify-scatter */
    while (n--)                                               /* loop: reduction */
        ++count[*data++];                                     /* idiom: gather-modify-scatter */
}

void bins(int n, int *count, const double *x, double low, double width)
{
    for (int i = 0; i < n; i++) {                             /* loop: reduction */
        int bin = (int)((x[i] - low) / width);
        if (bin >= 0 && bin < BINS)
            count[bin] += 1;                                  /* idiom: gather-modify-scatter */
    }
}

void assemble(struct mesh *m, const double *load)
{
    for (int t = 0; t < m->triangles; t++)                    /* loop: reduction */
        for (int c = 0; c < 3; c++) {                         /* loop: reduction */
            int node = m->corner[t][c];
            m->force[node] += load[t] / 3;                    /* idiom: gather-modify-scatter */
        }
}

void deposit(int n, double *grid, const int *cell, const double *charge, const double *weight)
{
    for (int i = 0; i < n; i++) {                             /* loop: reduction */
        double *target = &grid[cell[i]];
        *target = *target + charge[i] * weight[cell[i]];      /* idiom: gather-modify-scatter (gather) */
    }
}

void relax(int edges, const int *from, const int *to, const int *weight, int *distance)
{
    for (int e = 0; e < edges; e++) {                         /* loop: unknown */
        int through = distance[from[e]] + weight[e];
        if (through < distance[to[e]])
            distance[to[e]] = through;                        /* idiom: gather-modify-scatter (gather) */
    }
}

void no_histogram(int n, int *count, const int *data)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        count[i] += data[i];                                  /* idiom: stream */
}

/* Sparse matrices. */

void spmv(const struct csr *a, const double *restrict x, double *restrict y)
{
    for (int r = 0; r < a->rows; r++) {                       /* loop: parallel */
        double sum = 0.0;
        for (int k = a->start[r]; k < a->start[r + 1]; k++)   /* loop: reduction */
            sum += a->value[k] * x[a->column[k]];             /* idiom: sparse-product-csr (gather, reduction) */
        y[r] = sum;                                           /* idiom: none */
    }
}

void spmv_running(int n, const int *end, const int *column, const float *value, const float *x, float *y)
{
    int k = 0;
    for (int r = 0; r < n; r++) {                             /* loop: unjudged */
        float sum = 0;
        for (; k < end[r]; k++)                               /* loop: reduction */
            sum += value[k] * x[column[k]];                   /* idiom: sparse-product-csr (gather, reduction) */
        y[r] = sum;                                           /* idiom: none */
    }
}

void spmv_in_place(int n, const int *ptr, const int *col, const double *val, const double *x, double *y)
{
    for (int r = 0; r < n; ++r) {                             /* loop: parallel */
        const int first = ptr[r], last = ptr[r + 1];
        for (int k = first; k < last; ++k)                    /* loop: reduction */
            y[r] += val[k] * x[col[k]];                       /* idiom: sparse-product-csr (gather, reduction) */
    }
}

void spmv_coordinates(int entries, const int *row, const int *column, const double *value, const double *x, double *y)
{
    for (int e = 0; e < entries; e++)                         /* loop: reduction */
        y[row[e]] += value[e] * x[column[e]];                 /* idiom: sparse-product-coo (gather, gather-modify-scatter) */
}

void spmv_padded(int rows, int width, const int *column, const double *value, const double *x, double *y)
{
    for (int r = 0; r < rows; r++) {                          /* loop: parallel */
        double sum = 0;
        for (int k = 0; k < width; k++)                       /* loop: reduction */
            sum += value[r * width + k] * x[column[r * width + k]]; /* idiom: sparse-product-ell (gather, reduction) */
        y[r] = sum;                                           /* idiom: none */
    }
}

double no_sparse_product(int n, const double *value, const double *x, const int *column)
{
    double total = 0.0;
    for (int k = 0; k < n; k++)                               /* loop: reduction */
        total += value[k] * x[column[k]];                     /* idiom: gather (reduction) */
    return total;
}

/* Tables. */

void substitute(size_t n, uint8_t *out, const uint8_t *in, const uint8_t box[256])
{
    static const uint8_t upper[256] = {1, 2, 3};
    for (size_t i = 0; i < n; i++)                            /* loop: parallel */
        out[i] = upper[in[i]];                                /* idiom: table-lookup */
}

unsigned population(size_t n, const uint8_t *data)
{
    unsigned bits = 0;
    for (size_t i = 0; i < n; i++)                            /* loop: reduction */
        bits += bits_of_nibble[data[i] & 15] + bits_of_nibble[data[i] >> 4]; /* idiom: table-lookup (reduction) */
    return bits;
}

uint32_t crc(const uint8_t *data, size_t n)
{
    uint32_t c = 0xffffffffu;
    while (n--)                                               /* loop: recurrence */
        c = crc_table[(c ^ *data++) & 0xff] ^ (c >> 8);       /* idiom: table-lookup */
    return ~c;
}

void quantised(int n, float *out, const unsigned short *code, const float *book)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        out[i] = book[code[i] & 1023];                        /* idiom: table-lookup */
}

void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {                      /* loop: parallel */
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)                     /* loop: recurrence */
            c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;      /* idiom: none */
        crc_table[i] = c;                                     /* idiom: none */
    }
}

/* Chains. */

double list_total(const struct node *list)
{
    double total = 0;
    while (list) {                                            /* loop: recurrence */
        total += list->load;                                  /* idiom: reduction */
        list = list->next;                                    /* idiom: pointer-chase */
    }
    return total;
}

int list_length(struct node *head)
{
    int length = 0;
    for (struct node *p = head; p != NULL; p = p->next)       /* loop: recurrence, idiom: pointer-chase */
        length++;
    return length;
}

int root(const int *parent, int x)
{
    while (parent[x] != x)                                    /* loop: recurrence */
        x = parent[x];                                        /* idiom: pointer-chase */
    return x;
}

const struct tree *find(const struct tree *t, int key)
{
    while (t && t->key != key)                                /* loop: recurrence */
        t = key < t->key ? t->left : t->right;                /* idiom: pointer-chase */
    return t;
}

void walk_chain(int n, size_t *where, const size_t *next)
{
    size_t at = 0;
    for (int i = 0; i < n; i++)                               /* loop: recurrence */
        at = next[at];                                        /* idiom: pointer-chase */
    *where = at;
}

void no_chain(int n, struct node *pool)
{
    struct node *p = pool;
    for (int i = 0; i < n; i++, p++)                          /* loop: parallel */
        p->next = p + 1;                                      /* idiom: stream */
}

int no_chase(int n, const int *next, const int *start, int *end)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        end[i] = next[start[i]];                              /* idiom: gather */
    return end[0];
}

/* Compactions. */

int keep_positive(int n, const double *a, double *b)
{
    int kept = 0;
    for (int i = 0; i < n; i++)                               /* loop: recurrence */
        if (a[i] > 0)
            b[kept++] = a[i];                                 /* idiom: compaction */
    return kept;
}

size_t positions(size_t n, const char *flag, size_t *out)
{
    size_t *start = out;
    for (size_t i = 0; i < n; i++) {                          /* loop: recurrence */
        if (!flag[i])
            continue;
        *out = i;                                             /* idiom: compaction */
        ++out;
    }
    return (size_t)(out - start);
}

int squeeze(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)              /* loop: unjudged */
        if (*from != ' ')
            *to++ = *from;                                    /* idiom: compaction */
    *to = 0;
    return (int)(to - text);
}

int branchless(int n, int *out, const int *a, int limit)
{
    int k = 0;
    for (int i = 0; i < n; i++) {                             /* loop: recurrence */
        out[k] = a[i];                                        /* idiom: compaction */
        k += a[i] < limit;
    }
    return k;
}

int no_compaction(int n, const double *a, double *b)
{
    int k = 0;
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        b[k++] = a[i];                                        /* idiom: stream */
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        if (a[i] > 0)
            b[i] = a[i];                                      /* idiom: stream */
    return k;
}
