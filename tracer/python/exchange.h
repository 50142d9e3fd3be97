/* What processes of one program tell each other, in memory that all that are followed share: who wrote to a pipe, who
 * released a semaphore, and where.
 *
 * A slot stands for one such object. Its posts are numbered; of the last EXCHANGE_POSTS the places are kept, so that
 * the reader of a pipe finds the place of the write that it reads. A table that is full, and objects that share a hash,
 * lose edges.
 */
#ifndef FORETRACE_PYAGENT_EXCHANGE_H
#define FORETRACE_PYAGENT_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Finds the memory behind what the reader has open by that number. Without it nothing is told. */
void exchange_attach(uint32_t reader_pid, uint32_t fd);
bool exchange_is_there(void);

/* Somebody who waits at the object may go on; `place` is where this thread is. */
void exchange_post(uint64_t object, uint64_t place);

/* The place of the first post that nobody has taken; 0: none, or not known. */
uint64_t exchange_take(uint64_t object);

/* The place of the last post, which stays; 0: none. */
uint64_t exchange_last(uint64_t object);

/* Two ends of a connection, each an object: what is written to one is read from the other. */
void exchange_connect(uint64_t one, uint64_t other);
uint64_t exchange_other_end(uint64_t object);

/* A number for an object, by what tells it apart. */
uint64_t exchange_object(uint64_t kind, uint64_t a, uint64_t b);

#endif
