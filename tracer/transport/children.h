/* How a process that descends from the traced program gets a stream of its own: a forked child, and a program that is
 * about to replace itself by another one. It asks the reader through the stream it has (struct ft_request in stream.h);
 * the reader sets up memory and answers with a descriptor of its own, which is opened by way of /proc. So no process of
 * the traced program ever keeps a descriptor of ours.
 */
#ifndef FORETRACE_CHILDREN_H
#define FORETRACE_CHILDREN_H

#include "tracer/transport/stream.h"

#include <stdbool.h>

/* True while the reader of this stream lives. It is our parent, or, of a process that was given its stream, any
 * process. */
bool ft_reader_lives(const struct ft_header *header);

/* Asks for a stream for this forked process, through the stream of its parent. Returns a descriptor of its memory, or
 * -1 if there is none to be had. */
int ft_children_ask(struct ft_header *header);

/* Asks as the program `program`, whose words end with NULL, through the stream of the process that started it, or was
 * it before. Answers likewise. */
int ft_children_ask_as(struct ft_header *of_parent, enum ft_request_kind kind, const char *program, char *const *words);

/* Opens what the reader has open by that number; -1 if it may not. */
int ft_children_open(uint32_t reader_pid, uint32_t fd);

/* Remembers which program runs, once, before it does: ft_children_execve has to know. */
void ft_children_remember(void);

/* Called before the system call execve(path, argv, envp) of a guest whose address 0 is at header->guest_base. If a
 * program of the guest's kind is to be run, and a stream for it can be had, runs it under the engine and does not
 * return. */
void ft_children_execve(struct ft_header *header, uint64_t path, uint64_t argv, uint64_t envp);

#endif
