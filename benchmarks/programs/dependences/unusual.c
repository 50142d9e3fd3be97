/* Loops in unusual surroundings, labelled as those in loops.c. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 2000
#define ALONE __attribute__((noinline))

double a[N + 8], b[N + 8], c[N + 8];
static int keys[N], from[N];
static jmp_buf place;
static volatile sig_atomic_t alarms;

static ALONE void sort(int *key, int *room, int n)
{
    if (n < 2)
        return;
    sort(key, room, n / 2);
    sort(key + n / 2, room + n / 2, n - n / 2);
    int i = 0, j = n / 2;
    for (int k = 0; k < n; k++) /* loop: recurrence 1 */
        room[k] = j == n || (i < n / 2 && key[i] <= key[j]) ? key[i++] : key[j++];
    for (int k = 0; k < n; k++) /* loop: none */
        key[k] = room[k];
}

static ALONE double tree_sum(const double *x, int n)
{
    if (n > 64)
        return tree_sum(x, n / 2) + tree_sum(x + n / 2, n - n / 2);
    double sum = 0;
    for (int i = 0; i < n; i++) /* loop: reduction add */
        sum += x[i];
    return sum;
}

static ALONE int queens(int n, int row, unsigned columns, unsigned up, unsigned down)
{
    int found = 0;
    if (row == n)
        return 1;
    for (int i = 0; i < n; i++) { /* loop: reduction add */
        unsigned at = 1u << i;
        if (!(columns & at) && !(up & 1u << (row + i)) && !(down & 1u << (n + row - i)))
            found += queens(n, row + 1, columns | at, up | 1u << (row + i), down | 1u << (n + row - i));
    }
    return found;
}

static ALONE void smooth_below(double *x, int n, int depth)
{
    for (int i = 1; i < n; i++) /* loop: recurrence 1 */
        x[i] = 0.5 * (x[i] + x[i - 1]);
    if (depth > 0)
        smooth_below(x, n, depth - 1);
}

static ALONE void leave(int i)
{
    if (i % 7 == 3)
        longjmp(place, 1);
    b[i] = a[i] + 1.0;
}

static ALONE int jumps(int n)
{
    volatile int thrown = 0;
    for (volatile int i = 0; i < n; i++) { /* loop: reduction add */
        if (setjmp(place) == 0)
            leave(i);
        else
            thrown++;
    }
    return thrown;
}

static ALONE void leave_inner(double *x, int n)
{
    for (volatile int i = 0; i < n; i++) { /* loop: none */
        volatile int row = i;
        if (setjmp(place) == 0)
            for (int j = 0; j < 20; j++) { /* loop: none */
                if (j == 11)
                    longjmp(place, 2);
                x[row * 20 + j] = row + j;
            }
    }
}

static void on_signal(int number)
{
    (void)number;
    double sum = 0;
    for (int i = 1; i < 50; i++) { /* loop: recurrence 1 */
        c[i] = c[i - 1] * 0.5 + 1;
        sum += c[i];
    }
    alarms += sum > 0;
}

static ALONE void with_signals(double *x, const double *y, int n)
{
    for (int i = 0; i < n; i++) { /* loop: none */
        x[i] = y[i] * 3.0;
        if (i % 500 == 7)
            __asm__ volatile("" ::: "memory");
    }
}

static ALONE void deep(double *x)
{
    for (int i = 0; i < 2; i++) /* loop: none */
        for (int j = 0; j < 2; j++) /* loop: none */
            for (int k = 0; k < 2; k++) /* loop: none */
                for (int l = 0; l < 2; l++) /* loop: none */
                    for (int m = 0; m < 2; m++) /* loop: none */
                        for (int n = 0; n < 2; n++) /* loop: none */
                            for (int o = 0; o < 2; o++) /* loop: none */
                                for (int p = 0; p < 2; p++) /* loop: recurrence 1 */
                                    for (int q = 0; q < 3; q++) { /* loop: none */
                                        int at = (((((((i * 2 + j) * 2 + k) * 2 + l) * 2 + m) * 2 + n) * 2 + o) * 3 + q);
                                        x[at] = x[at] * 0.5 + 1.0 / (1 + q);
                                    }
}

static ALONE void far_apart(double *x, int n, int distance)
{
    for (int i = distance; i < n; i++) /* loop: recurrence */
        x[i] = x[i - distance] * 0.5 + 1.0;
}

static ALONE unsigned long many(unsigned long n)
{
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) { /* loop: reduction xor */
        sum ^= i * i;
    }
    return sum;
}

static ALONE double in_function(double (*f)(double), const double *x, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) { /* loop: reduction */
        double y = f(x[i]);
        if (y > most)
            most = y;
    }
    return most;
}

static double twice(double x)
{
    return 2 * x;
}

static ALONE double library_calls(const double *x, float *y, double *z, int n)
{
    double most = 0, so_far = 0, fading = 1, limited = 1;
    float least = 1e9f;
    for (int i = 0; i < n; i++) { /* loop: reduction max */
        most = fmax(most, x[i]);
    }
    for (int i = 0; i < n; i++) { /* loop: reduction min */
        least = fminf(y[i], least);
    }
    for (int i = 0; i < n; i++) { /* loop: recurrence */
        so_far = fmax(so_far, x[i]);
        z[i] = so_far;
    }
    for (int i = 0; i < n; i++) { /* loop: recurrence */
        fading = fmax(0.5 * fading, x[i]);
    }
    for (int i = 0; i < n; i++) { /* loop: recurrence */
        limited = fmax(limited, fmin(limited + 1, x[i]));
    }
    return most + (double)least + so_far + fading + limited;
}

int main(void)
{
    static int room[N];
    static float singles[N];
    static double rows[N * 20];
    for (int i = 0; i < N; i++) { /* loop: none */
        a[i] = i % 13;
        keys[i] = (int)((i * 7919L) % N);
        from[i] = i / 3;
    }
    signal(SIGUSR1, on_signal);
    sort(keys, room, N);
    double sum = tree_sum(a, N) + queens(6, 0, 0, 0, 0);
    smooth_below(a, N, 3);
    sum += jumps(200);
    leave_inner(rows, 100);
    with_signals(b, a, N);
    raise(SIGUSR1);
    raise(SIGUSR1);
    deep(a);
    far_apart(b, N, 700);
    sum += (double)many(3000000) + in_function(twice, a, N);
    for (int i = 0; i < N; i++) { /* loop: none */
        singles[i] = (float)((i * 37) % 101);
    }
    sum += library_calls(a, singles, b, N);
    printf("%g %d %g %g %d\n", sum, keys[5], b[9], rows[77], (int)alarms);
    return 0;
}
