/* See boards.h.
 *
 * When the library makes a board it looks for a global function foretrace_board_made, and calls it (board.c). That is
 * here: the agent, which the interpreter has loaded with local symbols, makes itself global. Of a library that came
 * before the agent (a function is traced in a fork of its interpreter) the variable foretrace_events_board says where
 * the board is.
 */
#define _GNU_SOURCE
#include "boards.h"

#include "tracer/transport/event_samples.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

__attribute__((visibility("default"))) void foretrace_board_made(void *board);

void foretrace_board_made(void *board)
{
    ft_event_samples_found((uintptr_t)board);
}

struct found {
    char path[4096];
};

static int take_library(struct dl_phdr_info *info, size_t size_bytes, void *context)
{
    struct found *found = context;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size_bytes;
    if (!name || (strncmp(name, "/libforetrace_events.so", 23) != 0 && strncmp(name, "/libsde.so", 10) != 0))
        return 0;
    snprintf(found->path, sizeof found->path, "%s", info->dlpi_name);
    return 1;
}

static void find_board(void)
{
    struct found found = {""};
    if (!dl_iterate_phdr(take_library, &found))
        return;
    void *library = dlopen(found.path, RTLD_LAZY | RTLD_NOLOAD);
    void **board = library ? dlsym(library, "foretrace_events_board") : NULL;
    if (board && *board)
        ft_event_samples_found((uintptr_t)*board);
    if (library)
        dlclose(library);
}

void boards_init(void)
{
    Dl_info own;
    if (dladdr((void *)(uintptr_t)foretrace_board_made, &own) && own.dli_fname)
        (void)!dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
    find_board();
}
