/* Declared whatever part is asked for. */
#ifndef FORETRACE_STDDEF_H
#define FORETRACE_STDDEF_H
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __WINT_TYPE__ wint_t;
#ifdef __cplusplus
namespace std { typedef decltype(nullptr) nullptr_t; }
using std::nullptr_t;
#else
typedef __WCHAR_TYPE__ wchar_t;
#endif
typedef struct {
    long long integers __attribute__((__aligned__(__alignof__(long long))));
    long double numbers __attribute__((__aligned__(__alignof__(long double))));
} max_align_t;
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#undef NULL
#ifdef __cplusplus
#define NULL __null
#else
#define NULL ((void *)0)
#endif
