/* Folds a sequence of numbers into nested loops while it grows.
 *
 * The sequence is kept as nodes: a number, or a loop of nodes with its number of iterations. When the last nodes equal
 * those before them, or the body of the loop before them, they become an iteration. While the sequence follows the last
 * loop, only a cursor into its body moves. Equality is that of 64-bit hashes, of stretches of nodes by a rolling hash.
 * An iteration has at most `FT_FOLD_WINDOW` nodes, and is looked for at no more than `FT_FOLD_CANDIDATES` lengths. */
#ifndef FORETRACE_MPI_FOLDING_H
#define FORETRACE_MPI_FOLDING_H

#include <stdbool.h>
#include <stdint.h>

#define FT_FOLD_WINDOW 4096
#define FT_FOLD_CANDIDATES 64
#define FT_FOLD_MOST_NODES (INT64_C(1) << 20)

/* Append a number, at least 0. False when nothing more can be kept: too many nodes, or no memory. */
bool ft_fold_append(int32_t number);

/* Calls `write` for each step in order: (number, 1), or (FT_STEP_REPEAT, iterations) and later (FT_STEP_END, 0). May be
 * called at any time, also by a signal handler: allocates nothing and changes nothing. */
void ft_fold_walk(void (*write)(int64_t call, int64_t times, void *context), void *context);

#endif
