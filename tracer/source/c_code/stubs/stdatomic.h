#ifndef FORETRACE_STDATOMIC_H
#define FORETRACE_STDATOMIC_H
#ifndef __cplusplus
typedef enum {
    memory_order_relaxed, memory_order_consume, memory_order_acquire, memory_order_release, memory_order_acq_rel,
    memory_order_seq_cst
} memory_order;
typedef _Atomic(int) atomic_int;
typedef _Atomic(unsigned) atomic_uint;
typedef _Atomic(long) atomic_long;
typedef _Atomic(unsigned long) atomic_ulong;
typedef _Atomic(long long) atomic_llong;
typedef _Atomic(_Bool) atomic_bool;
typedef _Atomic(__SIZE_TYPE__) atomic_size_t;
#define ATOMIC_VAR_INIT(value) (value)
#define atomic_init(object, value) ((void)(*(object) = (value)))
#define atomic_store(object, value) ((void)(*(object) = (value)))
#define atomic_load(object) (*(object))
#define atomic_fetch_add(object, value) ((*(object) += (value)) - (value))
#define atomic_fetch_sub(object, value) ((*(object) -= (value)) + (value))
#endif
#endif
