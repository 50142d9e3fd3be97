/* Small loops, each labelled with what it carries from one iteration to the next:
 *
 *     loop: KIND [OPERATION] [DISTANCE]
 *
 * KIND is none, reduction, privatisable, recurrence or collision: the worst of what it carries with this input. The label
 * stands on the line of the loop's `for` or `while`.
 */
#include <stdio.h>
#include <stdlib.h>

#define N 2000
#define M 40

double a[N + 8], b[N + 8], c[N + 8], d[N + 8], grid[M][M], other[M][M];
int apart[N], same[N], next_of[N], counts[64], keys[N];
double scratch[16], shared_value;
long total_calls;

#define ALONE __attribute__((noinline))

static ALONE void fill(void)
{
    for (int i = 0; i < N + 8; i++) { /* loop: none */
        a[i] = 1.0 + i % 7;
        b[i] = 2.0 + i % 5;
        c[i] = 0.5;
        d[i] = 0.25;
    }
    for (int i = 0; i < N; i++) { /* loop: none */
        apart[i] = (int)((i * 7L) % N);
        keys[i] = (i * 31) % 64;
        next_of[i] = (i + 611) % N;
    }
    for (int i = 0; i < N; i++) /* loop: none */
        same[i] = i % 13;
}

static ALONE void add(double *x, const double *y, const double *z, int n)
{
    for (int i = 0; i < n; i++) /* loop: none */
        x[i] = y[i] + 2.0 * z[i];
}

static ALONE void scale(double *x, int n)
{
    for (int i = 0; i < n; i++) /* loop: none */
        x[i] = x[i] * 1.0001;
}

static ALONE double dot(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) /* loop: reduction add */
        sum += x[i] * y[i];
    return sum;
}

static ALONE double product(const double *x, int n)
{
    double value = 1;
    for (int i = 0; i < n; i++) /* loop: reduction multiply */
        value *= x[i];
    return value;
}

static ALONE double largest(const double *x, int n)
{
    double most = x[0];
    for (int i = 1; i < n; i++) /* loop: reduction */
        if (x[i] > most)
            most = x[i];
    return most;
}

static ALONE long bits(const int *x, int n)
{
    long all = 0;
    for (int i = 0; i < n; i++) /* loop: reduction or */
        all |= x[i];
    return all;
}

static ALONE int count_over(const double *x, int n, double limit)
{
    int number = 0;
    for (int i = 0; i < n; i++) /* loop: reduction add */
        if (x[i] > limit)
            number++;
    return number;
}

static ALONE void prefix(double *x, const double *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) { /* loop: recurrence 1 */
        sum += y[i];
        x[i] = sum;
    }
}

static ALONE void shifted(double *x, const double *y, int n)
{
    for (int i = 1; i < n; i++) /* loop: recurrence 1 */
        x[i] = 0.5 * x[i - 1] + y[i];
}

static ALONE void far(double *x, int n)
{
    for (int i = 4; i < n; i++) /* loop: recurrence 4 */
        x[i] = x[i] + 0.5 * x[i - 4];
}

static ALONE void gauss_seidel(double *x, const double *y, int n)
{
    for (int sweep = 0; sweep < 3; sweep++) /* loop: recurrence 1 */
        for (int i = 1; i < n - 1; i++) /* loop: recurrence 1 */
            x[i] = 0.3 * (x[i - 1] + x[i + 1] + y[i]);
}

static ALONE void jacobi(double *x, const double *y, int n)
{
    for (int i = 1; i < n - 1; i++) /* loop: none */
        x[i] = 0.3 * (y[i - 1] + y[i] + y[i + 1]);
}

static ALONE void stencil(void)
{
    for (int t = 0; t < 4; t++) { /* loop: recurrence 1 */
        for (int i = 1; i < M - 1; i++) /* loop: none */
            for (int j = 1; j < M - 1; j++) /* loop: none */
                other[i][j] = 0.25 * (grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]);
        for (int i = 1; i < M - 1; i++) /* loop: none */
            for (int j = 1; j < M - 1; j++) /* loop: none */
                grid[i][j] = other[i][j];
    }
}

static ALONE void sweep_grid(void)
{
    for (int i = 1; i < M; i++) /* loop: recurrence 1 */
        for (int j = 1; j < M; j++) /* loop: recurrence 1 */
            grid[i][j] = 0.5 * grid[i][j - 1] + 0.25 * grid[i - 1][j];
}

static ALONE void columns(void)
{
    for (int i = 1; i < M; i++) /* loop: recurrence 1 */
        for (int j = 0; j < M; j++) /* loop: none */
            grid[i][j] += 0.5 * grid[i - 1][j];
}

static ALONE void multiply(void)
{
    for (int i = 0; i < M; i++) /* loop: none */
        for (int j = 0; j < M; j++) { /* loop: none */
            double sum = 0;
            for (int k = 0; k < M; k++) /* loop: reduction add */
                sum += grid[i][k] * other[k][j];
            a[i * M + j] = sum;
        }
}

static ALONE void sum_rows(double *sums)
{
    for (int i = 0; i < M; i++) /* loop: reduction add */
        for (int j = 0; j < M; j++) /* loop: none */
            sums[j] += grid[i][j];
}

static ALONE void use_scratch(double *x, int n)
{
    for (int i = 0; i < n; i++) { /* loop: privatisable */
        for (int k = 0; k < 16; k++) /* loop: none */
            scratch[k] = x[i] * k;
        for (int k = 0; k < 16; k++) /* loop: none */
            other[i % M][k] = scratch[15 - k];
    }
}

static ALONE void use_shared(double *x, const double *y, int n)
{
    for (int i = 0; i < n; i++) { /* loop: privatisable */
        shared_value = y[i] * 2.0;
        add(x + i, &shared_value, y, 1);
    }
}

static ALONE void histogram(const int *key, int n)
{
    for (int i = 0; i < n; i++) /* loop: collision add */
        counts[key[i]]++;
}

static ALONE void scatter_add(double *y, const int *index, const double *x, int n)
{
    for (int i = 0; i < n; i++) /* loop: collision add */
        y[index[i]] += x[i];
}

static ALONE void scatter_apart(double *y, const int *index, const double *x, int n)
{
    for (int i = 0; i < n; i++) /* loop: none */
        y[index[i]] += 3.0 * x[i];
}

static ALONE void permute(double *y, const int *index, const double *x, int n)
{
    for (int i = 0; i < n; i++) /* loop: none */
        y[index[i]] = x[i];
}

static ALONE void overwrite(double *y, const int *index, const double *x, int n)
{
    for (int i = 0; i < n; i++) /* loop: collision */
        y[index[i]] = x[i] + 1.0;
}

static ALONE double gather(const double *x, const int *index, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) /* loop: reduction add */
        sum += x[index[i]];
    return sum;
}

static ALONE int chase(const int *next, int n)
{
    int at = 0;
    for (int i = 0; i < n; i++) /* loop: recurrence 1 */
        at = next[at];
    return at;
}

static ALONE unsigned generate(unsigned seed, int n)
{
    for (int i = 0; i < n; i++) /* loop: recurrence 1 */
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static ALONE double horner(const double *x, int n)
{
    double value = 0;
    for (int i = 0; i < n; i++) /* loop: recurrence 1 */
        value = value * 0.99 + x[i];
    return value;
}

static ALONE int compact(double *y, const double *x, int n)
{
    int number = 0;
    for (int i = 0; i < n; i++) /* loop: recurrence 1 */
        if (x[i] > 3.0)
            y[number++] = x[i];
    return number;
}

static ALONE double work(double x)
{
    double room[4];
    for (int i = 0; i < 4; i++) /* loop: none */
        room[i] = x * i;
    return room[0] + room[1] + room[2] + room[3];
}

static ALONE void call_each(double *x, const double *y, int n)
{
    for (int i = 0; i < n; i++) /* loop: none */
        x[i] = work(y[i]);
}

static ALONE double call_sum(const double *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) /* loop: reduction add */
        sum += work(y[i]);
    return sum;
}

static ALONE void allocate(double *x, int n)
{
    for (int i = 0; i < n; i++) { /* loop: none */
        double *room = malloc(64 + 8 * (i % 3));
        room[0] = x[i];
        x[i] = room[0] * 0.5;
        free(room);
    }
}

static ALONE double step(double state, double x)
{
    return state * 0.5 + x;
}

static ALONE double call_chain(const double *y, int n)
{
    double state = 0;
    for (int i = 0; i < n; i++) /* loop: recurrence 1 */
        state = step(state, y[i]);
    return state;
}

static ALONE void bytes(char *text, int n)
{
    for (int i = 0; i < n; i++) /* loop: none */
        text[i] = (char)('a' + i % 26);
    for (int i = 1; i < n; i++) /* loop: recurrence 1 */
        text[i] = (char)(text[i] ^ text[i - 1]);
}

int main(void)
{
    static char text[N];
    double sums[M] = {0};
    fill();
    add(a, b, c, N);
    scale(a, N);
    double result = dot(a, b, N) + product(a, N) + largest(a, N) + (double)bits(keys, N) + count_over(a, N, 5.0);
    prefix(c, a, N);
    shifted(c, a, N);
    far(c, N);
    gauss_seidel(c, a, N);
    jacobi(d, c, N);
    for (int i = 0; i < M; i++) /* loop: none */
        for (int j = 0; j < M; j++) /* loop: none */
            grid[i][j] = i + j;
    stencil();
    sweep_grid();
    columns();
    multiply();
    sum_rows(sums);
    use_scratch(a, 200);
    use_shared(d, a, N);
    histogram(keys, N);
    scatter_add(c, same, a, N);
    scatter_apart(c, apart, a, N);
    permute(c, apart, a, N);
    overwrite(c, same, a, N);
    result += gather(a, apart, N) + chase(next_of, N) + generate(1, N) + horner(a, N) + compact(d, a, N);
    call_each(c, a, N);
    result += call_sum(a, N) + call_chain(a, N);
    allocate(a, 300);
    bytes(text, N);
    printf("%g %g %d %c\n", result, sums[3] + c[7] + d[9] + grid[5][5], counts[5], text[9]);
    return 0;
}
