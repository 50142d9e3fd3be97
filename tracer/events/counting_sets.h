/* Sets that count how often each element is in them. All with the lock of the registry. */
#ifndef FORETRACE_COUNTING_SETS_H
#define FORETRACE_COUNTING_SETS_H

#include "tracer/events/registry.h"

int counting_set_insert(struct board *board, struct local_event *set, size_t size_bytes, size_t hashable_bytes,
                        const void *element, uint32_t type_id);
int counting_set_remove(struct local_event *set, size_t hashable_bytes, const void *element, uint32_t type_id);
void counting_set_clear(struct board *board, struct local_event *set);

/* A list that the caller frees; NULL: the set is empty, or there is no memory. */
cset_list_object_t *counting_set_list(struct board *board, const struct local_event *set);

#endif
