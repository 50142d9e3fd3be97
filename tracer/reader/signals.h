/* Signals that are meant for the traced program but sent to us.
 *
 * Python's own handlers cannot tell a signal that the terminal sends (to us and the program alike) from one that
 * somebody sends to us alone; and blocking signals does not keep them from the threads that libraries have started. So
 * these few get a handler in C, which notes those that have to be passed on.
 */
#ifndef FORETRACE_SIGNALS_H
#define FORETRACE_SIGNALS_H

#include <stdint.h>

/* Catches the signals whose bits (1 << number) are set, but for those that are ignored: the program is to inherit that.
 * False if the system refuses. */
int ft_signals_catch(uint64_t signals);

/* Once the program runs, the ignored ones: it may have begun to handle them itself. */
int ft_signals_catch_ignored(uint64_t signals);

/* Puts the handlers that were there before back. */
void ft_signals_release(void);

/* The signals sent to us since the last call, as bits. Those that the terminal sent are left out. */
uint64_t ft_signals_take(void);

/* How often SIGINT has come since ft_signals_catch, from the terminal or anybody else. */
uint32_t ft_signals_interrupts(void);

#endif
