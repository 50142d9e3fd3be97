/* Files that a program maps to run their code, and that lose their name while it runs: a library that is unlinked once
 * it is open, one in memory (memfd_create), a program that is replaced by another. Their names and lines are read after
 * the run, so each is copied into the side table (FT_SIDE_FILE): when it is mapped without a name, or when the program
 * is about to take its name away. */
#ifndef FT_MAPPED_FILES_H
#define FT_MAPPED_FILES_H

#include <stddef.h>
#include <stdint.h>

/* Before anything runs. */
void ft_mapped_files_begin(const char *target);

/* `maps` is the first copy of /proc/self/maps. */
void ft_mapped_files_first(const char *maps, size_t length);

/* A system call of the program begins; one of mmap with PROT_EXEC has returned, without an error, for a file open as
 * `fd`. */
void ft_mapped_files_call(int64_t number, const uint64_t arguments[6]);
void ft_mapped_files_mapped(int fd);

#endif
