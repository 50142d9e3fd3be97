/* See block_queue.h. */
#define _GNU_SOURCE
#include "block_queue.h"

#include <stdlib.h>
#include <time.h>

void ft_block_queue_init(struct ft_block_queue *queue)
{
    pthread_condattr_t attributes; /* none of these can fail with such attributes on Linux */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void ft_block_queue_destroy(struct ft_block_queue *queue)
{
    for (; queue->taken != queue->added; queue->taken++)
        free(queue->blocks[queue->taken % FT_QUEUE_BLOCKS].data);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

void ft_block_queue_add(struct ft_block_queue *queue, unsigned char *data, size_t length)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->added - queue->taken == FT_QUEUE_BLOCKS && !queue->refusing)
        pthread_cond_wait(&queue->changed, &queue->lock);
    if (queue->refusing)
        free(data);
    else
        queue->blocks[queue->added++ % FT_QUEUE_BLOCKS] = (struct ft_block_bytes){data, length};
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

void ft_block_queue_close(struct ft_block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static struct timespec later(unsigned timeout_ms)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += timeout_ms / 1000;
    time.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

bool ft_block_queue_take(struct ft_block_queue *queue, unsigned timeout_ms, struct ft_block_bytes *block, bool *closed)
{
    const struct timespec deadline = later(timeout_ms);
    int timed_out = 0;
    pthread_mutex_lock(&queue->lock);
    while (queue->added == queue->taken && !queue->closed && !timed_out)
        timed_out = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
    bool found = queue->added != queue->taken;
    if (found)
        *block = queue->blocks[queue->taken++ % FT_QUEUE_BLOCKS];
    *closed = queue->closed;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return found;
}

void ft_block_queue_refuse(struct ft_block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->refusing = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}
