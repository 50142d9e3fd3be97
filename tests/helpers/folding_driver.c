/* Folds the numbers on standard input (tracer/mpi/interposer/folding.c), and prints the steps: number and times. */
#include <inttypes.h>
#include <stdio.h>

#include "tracer/mpi/interposer/folding.h"

static void print_step(int64_t call, int64_t times, void *context)
{
    (void)context;
    printf("%" PRId64 " %" PRId64 "\n", call, times);
}

int main(void)
{
    int number;
    while (scanf("%d", &number) == 1)
        if (!ft_fold_append(number))
            return 1;
    ft_fold_walk(print_step, NULL);
    return 0;
}
