/* Binary heaps of entities, by the end of their work, then by number: so that equal runs are equal in every detail. */
#include "engine.h"

static bool before(const struct ft_engine *e, int32_t a, int32_t b)
{
    const double one = e->entities[a].work_end, other = e->entities[b].work_end;
    return one < other || (one == other && a < b);
}

static void sift_down(const struct ft_engine *e, int32_t *heap, size_t n, size_t i)
{
    const int32_t moved = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(e, heap[child + 1], heap[child]))
            child++;
        if (!before(e, heap[child], moved))
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

void ft_heap_push(const struct ft_engine *e, int32_t *heap, size_t n, int32_t entity)
{
    size_t i = n;
    while (i && before(e, entity, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = entity;
}

void ft_heap_pop(const struct ft_engine *e, int32_t *heap, size_t n)
{
    heap[0] = heap[n - 1];
    if (n > 1)
        sift_down(e, heap, n - 1, 0);
}

void ft_heapify(struct ft_engine *e, int32_t *heap, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(e, heap, n, i);
}
