/* The accesses of an array operation that may change a cache, found line by line instead of point by point. */
#ifndef FORETRACE_ARRAY_LINES_H
#define FORETRACE_ARRAY_LINES_H

#include "array_walk.h"
#include "recent_lines.h"

struct ft_array_lines {
    struct ft_array_walk walk;                  /* at the beginning of the row at hand */
    struct ft_recent_lines *recent;             /* tells lines and their sets */
    struct ft_access access[FT_ARRAY_ACCESSES]; /* without their addresses */
    uint64_t period[FT_ARRAY_ACCESSES];         /* points for each line but the first of a row; 0: not always as many */
    uint64_t next[FT_ARRAY_ACCESSES];           /* the point of the row at which an access comes to another line */
    uint64_t line[FT_ARRAY_ACCESSES];           /* where it is until then, */
    uint64_t set[FT_ARRAY_ACCESSES];            /* and that line's set */
    bool several[FT_ARRAY_ACCESSES];            /* or it is at this point alone, and has more than one line */
    bool is_point_by_point;
};

/* So many lines stay in every cache together, whatever their sets. What `recent` knew is forgotten. */
void ft_array_lines_begin(struct ft_array_lines *lines, const struct ft_array_run *run, struct ft_recent_lines *recent,
                          size_t repeatable_lines);

/* Writes the next accesses, up to `room`, which is FT_ARRAY_ACCESSES at least. Returns how many; 0 at the end. */
size_t ft_array_lines_next(struct ft_array_lines *lines, struct ft_access *out, size_t room);

#endif
