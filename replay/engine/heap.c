/* Binary heaps. Of entities of a class, by the end of their work, then by number; of what is due, by time, then by
 * number: so that equal runs are equal in every detail. */
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

static bool due_before(const struct ft_engine *e, int32_t a, int32_t b)
{
    return e->due_s[a] < e->due_s[b] || (e->due_s[a] == e->due_s[b] && a < b);
}

static void place(struct ft_engine *e, size_t i, int32_t item)
{
    e->due[i] = item;
    e->due_at[item] = (int32_t)i;
}

static void due_up(struct ft_engine *e, size_t i)
{
    const int32_t item = e->due[i];
    while (i && due_before(e, item, e->due[(i - 1) / 2])) {
        place(e, i, e->due[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(e, i, item);
}

static void due_down(struct ft_engine *e, size_t i)
{
    const int32_t item = e->due[i];
    for (size_t child; (child = 2 * i + 1) < e->n_due; i = child) {
        if (child + 1 < e->n_due && due_before(e, e->due[child + 1], e->due[child]))
            child++;
        if (!due_before(e, e->due[child], item))
            break;
        place(e, i, e->due[child]);
    }
    place(e, i, item);
}

void ft_due_set(struct ft_engine *e, int32_t item, double time)
{
    const double was = e->due_s[item];
    e->due_s[item] = time;
    if (e->due_at[item] < 0) {
        place(e, e->n_due, item);
        due_up(e, e->n_due++);
    } else if (time < was) {
        due_up(e, (size_t)e->due_at[item]);
    } else {
        due_down(e, (size_t)e->due_at[item]);
    }
}

void ft_due_drop(struct ft_engine *e, int32_t item)
{
    const int32_t at = e->due_at[item];
    if (at < 0)
        return;
    e->due_at[item] = -1;
    if ((size_t)at == --e->n_due)
        return;
    const int32_t moved = e->due[e->n_due];
    place(e, (size_t)at, moved);
    due_down(e, (size_t)at);
    due_up(e, (size_t)e->due_at[moved]);
}

void ft_due_heapify(struct ft_engine *e)
{
    for (size_t i = e->n_due / 2; i-- > 0;)
        due_down(e, i);
}
