/* Blocks of bytes on their way from a producer, which may have to wait, to the thread that writes them to a file. */
#ifndef FORETRACE_BLOCK_QUEUE_H
#define FORETRACE_BLOCK_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define FT_QUEUE_BLOCKS 4u

struct ft_block_bytes {
    unsigned char *data; /* from malloc */
    size_t length;
};

/* blocks[taken % FT_QUEUE_BLOCKS] .. blocks[(added - 1) % FT_QUEUE_BLOCKS] are waiting. */
struct ft_block_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned long added, taken;
    bool closed, refusing;
    struct ft_block_bytes blocks[FT_QUEUE_BLOCKS];
};

void ft_block_queue_init(struct ft_block_queue *queue);
void ft_block_queue_destroy(struct ft_block_queue *queue);

/* Takes `data` over. Waits while the queue is full; once the consumer refuses, drops it. */
void ft_block_queue_add(struct ft_block_queue *queue, unsigned char *data, size_t length);
void ft_block_queue_close(struct ft_block_queue *queue); /* nothing more will be added */

/* Waits up to `timeout_ms` for a block, which is then the caller's. False: none came; `*closed` says whether any will.
 */
bool ft_block_queue_take(struct ft_block_queue *queue, unsigned timeout_ms, struct ft_block_bytes *block, bool *closed);
void ft_block_queue_refuse(struct ft_block_queue *queue); /* the consumer takes no more */

#endif
