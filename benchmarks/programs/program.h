/* What the programs in C and C++ share: arguments, memory, pseudo-random numbers. Every program is deterministic.
 *
 * Memory comes from one static arena, so that a program linked at a fixed address (-static -no-pie) has each of its
 * arrays at the same address under every tool that runs it, and cache simulations of it can be compared miss by miss.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 30)
#define PAGE_BYTES ((size_t)4096)

/* The hot loops stay functions of their own, so that a report can name them. */
#define KERNEL __attribute__((noinline))

static unsigned char arena[ARENA_BYTES] __attribute__((aligned(4096)));
static size_t arena_used;

static inline void *allocate_bytes(size_t bytes)
{
    size_t rounded = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (rounded < bytes || rounded > ARENA_BYTES - arena_used) {
        fprintf(stderr, "needs more than the %zu MiB this program sets aside: choose a smaller size\n", ARENA_BYTES >> 20);
        exit(1);
    }
    arena_used += rounded;
    return arena + arena_used - rounded;
}

static inline void *allocate_array(size_t count, size_t element_bytes)
{
    if (count > ARENA_BYTES / element_bytes)
        return allocate_bytes(SIZE_MAX);
    return allocate_bytes(count * element_bytes);
}

/* The number in an argument, or the fallback where the argument is not given; ends the program on anything else. */
static inline size_t number_argument(int argc, char **argv, int position, size_t fallback, size_t least, size_t most)
{
    if (position >= argc)
        return fallback;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(argv[position], &end, 10);
    if (errno || *end || end == argv[position] || argv[position][0] == '-' || value < least || value > most) {
        fprintf(stderr, "argument %d is '%s', must be a whole number from %zu to %zu\n", position, argv[position], least, most);
        exit(2);
    }
    return (size_t)value;
}

/* Help is asked for, or there are more arguments than the program takes. */
static inline void check_usage(int argc, char **argv, int most, const char *usage)
{
    if (argc - 1 > most || (argc > 1 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")))) {
        fprintf(argc - 1 > most ? stderr : stdout, "usage: %s\n", usage);
        exit(argc - 1 > most ? 2 : 0);
    }
}

/* splitmix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA'14). */
static inline uint64_t random_u64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline double random_unit(uint64_t *state)
{
    return (double)(random_u64(state) >> 11) * 0x1p-53;
}

static inline size_t random_below(uint64_t *state, size_t limit)
{
    return (size_t)((random_u64(state) >> 32) * (uint64_t)limit >> 32);
}

#endif
