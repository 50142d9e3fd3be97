/* What the threaded programs in C and C++ share: the number of threads, and pseudo-random numbers. */
#ifndef THREADED_H
#define THREADED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_THREADS 64

/* The first argument, 1 if there is none. */
static inline int threads_argument(int argc, char **argv)
{
    char *end = NULL;
    long threads = argc > 1 ? strtol(argv[1], &end, 10) : 1;
    if (argc > 2 || (end && *end) || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: %s [THREADS], from 1 to %d\n", argv[0], MOST_THREADS);
        exit(2);
    }
    return (int)threads;
}

/* A multiplicative congruential step (Knuth's constant of MMIX). */
static inline uint64_t next_number(uint64_t state)
{
    return state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

#endif
