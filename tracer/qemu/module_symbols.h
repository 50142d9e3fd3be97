/* Names in the symbol tables of the files that a program's code is mapped from. */
#ifndef FORETRACE_MODULE_SYMBOLS_H
#define FORETRACE_MODULE_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

/* Memory that is mapped, in this process's addresses; of a file, if its path is not empty. */
struct ft_mapping {
    uint64_t first, end;
    uint64_t base; /* of a file: this process's address of link-time address 0 */
    char path[1024];
};

/* The mapping that holds an address. False if there is none. */
bool ft_mapping_of(uint64_t address, struct ft_mapping *mapping);

struct ft_symbol {
    const char *name;
    uint64_t address, size_bytes; /* in this process */
    bool is_function;             /* else a variable */
};

/* Calls `take` for each named function and variable of a mapping's file. Of a file that is none, or damaged, as far as
 * it goes. */
void ft_symbols_of(const struct ft_mapping *mapping, void (*take)(const struct ft_symbol *symbol, void *context),
                   void *context);

#endif
