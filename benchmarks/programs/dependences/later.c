/* Small loops, labelled as those in loops.c. They were written, and run for the first time, after the second set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 1500
#define SIDE 30
#define ALONE __attribute__((noinline))

struct particle {
    double x, v, mass;
    int cell;
};
struct item {
    struct item *next;
    double value;
};

static struct particle particles[N];
static struct item items[N];
static double u[SIDE][SIDE], v[SIDE][SIDE], density[64], field[64], samples[N], filtered[N], weights[9];
static unsigned char picture[SIDE * SIDE], blurred[SIDE * SIDE];
static unsigned short table[4096];
static int order[N], rank_of[N], parent[N], degree[N], row_start[SIDE + 1], stack[N];
static float singles[N];

static ALONE void push_all(double dt)
{
    for (int i = 0; i < N; i++) { /* loop: none */
        struct particle *p = &particles[i];
        p->v += dt * field[p->cell];
        p->x += dt * p->v;
    }
}

static ALONE void deposit(void)
{
    for (int i = 0; i < N; i++) /* loop: collision add */
        density[particles[i].cell] += particles[i].mass;
}

static ALONE double kinetic(void)
{
    double energy = 0;
    for (int i = 0; i < N; i++) /* loop: reduction add */
        energy += 0.5 * particles[i].mass * particles[i].v * particles[i].v;
    return energy;
}

static ALONE double walk(const struct item *at)
{
    double sum = 0;
    while (at) { /* loop: recurrence 1 */
        sum += at->value;
        at = at->next;
    }
    return sum;
}

static ALONE void convolve(double *to, const double *from, int n)
{
    for (int i = 4; i < n - 4; i++) { /* loop: none */
        double sum = 0;
        for (int k = -4; k <= 4; k++) /* loop: reduction add */
            sum += weights[k + 4] * from[i + k];
        to[i] = sum;
    }
}

static ALONE void exponential(double *to, const double *from, int n)
{
    for (int i = 1; i < n; i++) /* loop: recurrence 1 */
        to[i] = 0.9 * to[i - 1] + 0.1 * from[i];
}

static ALONE void transpose(void)
{
    for (int i = 0; i < SIDE; i++) /* loop: none */
        for (int j = 0; j < SIDE; j++) /* loop: none */
            v[j][i] = u[i][j];
}

static ALONE void eliminate(void)
{
    for (int k = 0; k < SIDE - 1; k++) /* loop: recurrence */
        for (int i = k + 1; i < SIDE; i++) { /* loop: none */
            double factor = u[i][k] / u[k][k];
            for (int j = k; j < SIDE; j++) /* loop: none */
                u[i][j] -= factor * u[k][j];
        }
}

static ALONE void wavefront(int *score)
{
    for (int i = 1; i < SIDE; i++) /* loop: recurrence 1 */
        for (int j = 1; j < SIDE; j++) { /* loop: recurrence 1 */
            int best = score[(i - 1) * SIDE + j] > score[i * SIDE + j - 1] ? score[(i - 1) * SIDE + j] : score[i * SIDE + j - 1];
            score[i * SIDE + j] = best + (i * j) % 3;
        }
}

static ALONE void blur(void)
{
    for (int i = SIDE + 1; i < SIDE * (SIDE - 1) - 1; i++) /* loop: none */
        blurred[i] = (unsigned char)((picture[i - 1] + picture[i + 1] + picture[i - SIDE] + picture[i + SIDE]) / 4);
}

static ALONE unsigned checksum(const unsigned char *bytes, int n)
{
    unsigned crc = 0xffffu;
    for (int i = 0; i < n; i++) /* loop: recurrence 1 */
        crc = (crc >> 1) ^ table[(crc ^ bytes[i]) & 4095];
    return crc;
}

static ALONE int parity(const int *x, int n)
{
    int bits = 0;
    for (int i = 0; i < n; i++) /* loop: reduction xor */
        bits ^= x[i];
    return bits;
}

static ALONE void invert(void)
{
    for (int i = 0; i < N; i++) /* loop: none */
        rank_of[order[i]] = i;
}

static ALONE void union_all(void)
{
    for (int i = 1; i < N; i++) /* loop: recurrence */
        parent[i] = parent[i / 2] + 1;
}

static ALONE void count_degrees(const int *edge, int n)
{
    for (int i = 0; i < n; i++) /* loop: collision add */
        degree[edge[i]] += 1;
}

static ALONE void starts(void)
{
    for (int i = 0; i < SIDE; i++) /* loop: recurrence 1 */
        row_start[i + 1] = row_start[i] + degree[i] % 5;
}

static ALONE float least(const float *x, int n)
{
    float found = x[0];
    for (int i = 1; i < n; i++) /* loop: reduction min */
        found = fminf(found, x[i]);
    return found;
}

static ALONE void reverse(double *x, int n)
{
    for (int i = 0; i < n / 2; i++) { /* loop: none */
        double t = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = t;
    }
}

static ALONE int search(int n)
{
    int top = 0, seen = 0;
    stack[top++] = 1;
    while (top > 0) { /* loop: recurrence */
        int at = stack[--top];
        seen++;
        if (2 * at + 1 < n) {
            stack[top++] = 2 * at;
            stack[top++] = 2 * at + 1;
        }
    }
    return seen;
}

static ALONE double rows_by_scratch(double *line)
{
    double sum = 0;
    for (int i = 0; i < SIDE; i++) { /* loop: reduction add */
        memcpy(line, u[i], sizeof u[i]);
        for (int j = 1; j < SIDE; j++) /* loop: recurrence 1 */
            line[j] += line[j - 1];
        sum += line[SIDE - 1];
    }
    return sum;
}

static ALONE void normalise(float *x, int n, float by)
{
    for (int i = 0; i < n; i++) /* loop: none */
        x[i] = x[i] / by;
}

int main(void)
{
    static int score[SIDE * SIDE];
    double line[SIDE];
    for (int i = 0; i < N; i++) { /* loop: none */
        particles[i] = (struct particle){i * 0.01, 0.1, 1.0 + i % 3, (i * 13) % 64};
        items[i].value = i;
        items[i].next = i + 1 < N ? &items[i + 1] : NULL;
        samples[i] = sin(i * 0.1);
        order[i] = (int)((i * 49L) % N);
        singles[i] = (float)((i * 31) % 997) + 1;
    }
    for (int i = 0; i < SIDE; i++) /* loop: none */
        for (int j = 0; j < SIDE; j++) { /* loop: none */
            u[i][j] = i == j ? 40.0 : 1.0 / (1 + i + j);
            picture[i * SIDE + j] = (unsigned char)(i * j);
        }
    for (int i = 0; i < 4096; i++) /* loop: none */
        table[i] = (unsigned short)(i * 40503);
    for (int i = 0; i < 9; i++) /* loop: none */
        weights[i] = 1.0 / 9;
    deposit();
    for (int i = 0; i < 64; i++) /* loop: none */
        field[i] = density[i] * 0.01;
    push_all(0.01);
    double result = kinetic() + walk(items);
    convolve(filtered, samples, N);
    exponential(filtered, samples, N);
    transpose();
    eliminate();
    wavefront(score);
    blur();
    unsigned crc = checksum(picture, SIDE * SIDE);
    invert();
    union_all();
    count_degrees(parent, N);
    starts();
    reverse(samples, N);
    result += rows_by_scratch(line) + least(singles, N) + parity(order, N) + search(N);
    normalise(singles, N, 3.0f);
    printf("%g %u %d %d %d %g %g\n", result, crc, rank_of[7], degree[3], row_start[SIDE], v[2][3], singles[9]);
    return blurred[99] + score[99] < 0;
}
