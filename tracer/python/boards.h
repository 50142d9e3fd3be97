/* The board of the process's software-defined events (tracer/events/board.h), as the agent finds it. */
#ifndef FORETRACE_PYTHON_BOARDS_H
#define FORETRACE_PYTHON_BOARDS_H

/* Finds the board that is there already, and lets the library say when it makes one. */
void boards_init(void);

#endif
