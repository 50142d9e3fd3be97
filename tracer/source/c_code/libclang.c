#include "tracer/source/c_code/libclang.h"

#include <dlfcn.h>
#include <stddef.h>

struct libclang clang;

const char *libclang_bind(const char *path)
{
    static void *library;
    if (library)
        return NULL;
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return dlerror();
#define X(result, name, arguments) \
    if (!(*(void **)&clang.name = dlsym(opened, "clang_" #name))) \
        return "its version has no clang_" #name;
    LIBCLANG_FUNCTIONS(X)
#undef X
    library = opened;
    return NULL;
}
