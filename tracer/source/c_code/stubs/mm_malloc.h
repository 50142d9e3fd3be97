#ifndef FORETRACE_MM_MALLOC_H
#define FORETRACE_MM_MALLOC_H
#include <stdlib.h>
#ifdef __cplusplus
extern "C" {
#endif
void *_mm_malloc(size_t bytes, size_t alignment);
void _mm_free(void *memory);
#ifdef __cplusplus
}
#endif
#endif
