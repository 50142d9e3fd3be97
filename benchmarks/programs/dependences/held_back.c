/* More small loops, labelled as those in loops.c. They were written when foretrace was done with those. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE __attribute__((noinline))
#define ROWS 300

struct particle {
    double x, v, force;
    int cell;
};

struct item {
    struct item *next;
    long value;
};

static struct particle particles[1000];
static int first[ROWS + 1], column[ROWS * 4];
static double value[ROWS * 4], vector[ROWS], result[ROWS], image[64][64], blurred[64][64];
static long fib[90], ring[32];
static float single[4096];
static unsigned short halves[3000];
static int parent[512], level[512];

static ALONE void build(void)
{
    for (int i = 0; i < ROWS; i++) { /* loop: none */
        first[i] = 4 * i;
        vector[i] = 1.0 / (1 + i);
    }
    first[ROWS] = 4 * ROWS;
    for (int k = 0; k < 4 * ROWS; k++) { /* loop: none */
        column[k] = (k * 37) % ROWS;
        value[k] = 0.25 + k % 3;
    }
    for (int i = 0; i < 1000; i++) { /* loop: none */
        particles[i].x = i * 0.1;
        particles[i].v = 1.0 - i % 3;
        particles[i].cell = (i * 7) % 50;
    }
}

static ALONE void sparse_product(void)
{
    for (int i = 0; i < ROWS; i++) { /* loop: none */
        double sum = 0;
        for (int k = first[i]; k < first[i + 1]; k++) /* loop: reduction add */
            sum += value[k] * vector[column[k]];
        result[i] = sum;
    }
}

static ALONE void transposed_product(void)
{
    for (int i = 0; i < ROWS; i++) /* loop: collision add */
        for (int k = first[i]; k < first[i + 1]; k++) /* loop: none */
            result[column[k]] += value[k] * vector[i];
}

static ALONE void triangular_solve(void)
{
    for (int i = 1; i < ROWS; i++) { /* loop: recurrence */
        double sum = vector[i];
        for (int k = first[i]; k < first[i + 1]; k++) /* loop: reduction add */
            if (column[k] < i)
                sum -= 0.01 * value[k] * vector[column[k]];
        vector[i] = sum;
    }
}

static ALONE void move(struct particle *p, int n, double dt)
{
    for (int i = 0; i < n; i++) { /* loop: none */
        p[i].v += dt * p[i].force;
        p[i].x += dt * p[i].v;
    }
}

static ALONE void forces(struct particle *p, int n)
{
    for (int i = 0; i < n; i++) { /* loop: none */
        double sum = 0;
        for (int j = 0; j < n; j++) { /* loop: reduction add */
            const double apart = p[i].x - p[j].x;
            sum += apart / (1.0 + apart * apart);
        }
        p[i].force = sum;
    }
}

static ALONE void bin(const struct particle *p, int n, int *bins)
{
    for (int i = 0; i < n; i++) /* loop: collision add */
        bins[p[i].cell] += 2;
}

static ALONE double energy(const struct particle *p, int n, double *least)
{
    double sum = 0, low = 1e300;
    for (int i = 0; i < n; i++) { /* loop: reduction */
        sum += 0.5 * p[i].v * p[i].v;
        low = p[i].x < low ? p[i].x : low;
    }
    *least = low;
    return sum;
}

static ALONE void fibonacci(int n)
{
    fib[0] = fib[1] = 1;
    for (int i = 2; i < n; i++) /* loop: recurrence 1 */
        fib[i] = (fib[i - 1] + fib[i - 2]) % 1000003;
}

static ALONE long list_sum(const struct item *head)
{
    long sum = 0;
    for (const struct item *at = head; at; at = at->next) /* loop: recurrence 1 */
        sum += at->value;
    return sum;
}

static ALONE void blur(void)
{
    for (int i = 1; i < 63; i++) /* loop: none */
        for (int j = 1; j < 63; j++) { /* loop: none */
            double sum = 0;
            for (int di = -1; di <= 1; di++) /* loop: reduction add */
                for (int dj = -1; dj <= 1; dj++) /* loop: reduction add */
                    sum += image[i + di][j + dj];
            blurred[i][j] = sum / 9;
        }
}

static ALONE void red_black(void)
{
    for (int colour = 0; colour < 2; colour++) /* loop: recurrence 1 */
        for (int i = 1; i < 63; i++) /* loop: none */
            for (int j = 1 + (i + colour) % 2; j < 63; j += 2) /* loop: none */
                image[i][j] = 0.2 * (image[i - 1][j] + image[i + 1][j] + image[i][j - 1] + image[i][j + 1]) + 1;
}

static ALONE void delay(int n)
{
    for (int i = 0; i < n; i++) /* loop: recurrence 8 */
        ring[i % 32] = ring[(i + 24) % 32] * 3 + i;
}

static ALONE double converge(double start)
{
    double x = start;
    while (fabs(x * x - 2.0) > 1e-12) /* loop: recurrence 1 */
        x = 0.5 * (x + 2.0 / x);
    return x;
}

static ALONE float single_sum(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) /* loop: reduction add */
        sum += x[i] * 0.5f;
    return sum;
}

static ALONE unsigned checksum(const unsigned short *x, int n)
{
    unsigned found = 0;
    for (int i = 0; i < n; i++) /* loop: reduction xor */
        found ^= x[i];
    return found;
}

static ALONE unsigned adler(const unsigned short *x, int n)
{
    unsigned one = 1, two = 0;
    for (int i = 0; i < n; i++) { /* loop: recurrence 1 */
        one = (one + x[i]) % 65521;
        two = (two + one) % 65521;
    }
    return two << 16 | one;
}

static ALONE void reversed(float *x, int n)
{
    for (int i = n - 2; i >= 0; i--) /* loop: recurrence 1 */
        x[i] = x[i] * 0.5f + x[i + 1];
}

static ALONE void shift_down(float *x, int n)
{
    for (int i = 0; i < n - 1; i++) /* loop: privatisable */
        x[i] = x[i + 1] * 0.5f + 1.0f;
}

static ALONE void levels(int n)
{
    for (int i = 1; i < n; i++) /* loop: recurrence */
        level[i] = level[parent[i]] + 1;
}

static ALONE int longest_run(const unsigned short *x, int n)
{
    int run = 0, longest = 0;
    for (int i = 1; i < n; i++) { /* loop: recurrence 1 */
        run = x[i] == x[i - 1] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static ALONE void copy_rows(void)
{
    double row[64];
    for (int i = 0; i < 64; i++) { /* loop: privatisable */
        for (int j = 0; j < 64; j++) /* loop: none */
            row[j] = image[i][63 - j];
        for (int j = 0; j < 64; j++) /* loop: none */
            blurred[i][j] = row[j] * row[63 - j];
    }
}

static ALONE void table(double *x, int n)
{
    for (int i = 0; i < n; i++) /* loop: none */
        x[i] = sin(0.01 * i) * exp(-0.001 * i);
}

static ALONE int by_random(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) /* loop: recurrence 1 */
        sum += rand() % 3;
    return sum;
}

int main(void)
{
    struct item *head = NULL;
    int bins[50] = {0};
    double least;
    static double sines[800];
    build();
    for (int i = 0; i < 500; i++) { /* loop: none */ /* the pointer is only handed on */
        struct item *one = malloc(sizeof *one);
        one->value = i;
        one->next = head;
        head = one;
    }
    for (int i = 0; i < 512; i++) /* loop: none */
        parent[i] = i / 2;
    for (int i = 0; i < 3000; i++) /* loop: none */
        halves[i] = (unsigned short)(i * i >> 3);
    for (int i = 0; i < 4096; i++) /* loop: none */
        single[i] = (float)(i % 11);
    for (int i = 0; i < 64; i++) /* loop: none */
        for (int j = 0; j < 64; j++) /* loop: none */
            image[i][j] = i ^ j;
    sparse_product();
    transposed_product();
    triangular_solve();
    forces(particles, 200);
    move(particles, 1000, 0.01);
    bin(particles, 1000, bins);
    double all = energy(particles, 1000, &least);
    fibonacci(90);
    blur();
    red_black();
    delay(500);
    reversed(single, 4096);
    shift_down(single, 4096);
    levels(512);
    copy_rows();
    table(sines, 800);
    printf("%g %g %ld %ld %g %g %u %u %d %g %d %d\n", all, least, list_sum(head), fib[50], converge(1.0),
           (double)single_sum(single, 4096), checksum(halves, 3000), adler(halves, 3000), longest_run(halves, 3000),
           sines[5] + blurred[3][4] + vector[5] + result[7], by_random(300), level[500] + (int)ring[3] + bins[4]);
    return 0;
}
