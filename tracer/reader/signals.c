/* See signals.h. `before[s]` is valid while bit s of `caught` is set. */
#define _GNU_SOURCE
#include "signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MAX_SIGNALS 64

static struct sigaction before[MAX_SIGNALS];
static uint64_t caught;
static _Atomic uint64_t taken;
static _Atomic uint32_t interrupts;

static void note(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number == SIGINT)
        atomic_fetch_add(&interrupts, 1);
    if (info->si_code != SI_KERNEL)
        atomic_fetch_or(&taken, UINT64_C(1) << number);
}

/* Catches those of `signals` that are ignored so far, or those that are not. */
static int catch_those(uint64_t signals, bool ignored)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART}, now;
    sigemptyset(&action.sa_mask);
    for (int number = 1; number < MAX_SIGNALS; number++) {
        if (!(signals >> number & 1))
            continue;
        if (sigaction(number, NULL, &now) != 0)
            return 0;
        if ((now.sa_handler == SIG_IGN) != ignored)
            continue;
        if (sigaction(number, &action, NULL) != 0)
            return 0;
        before[number] = now;
        caught |= UINT64_C(1) << number;
    }
    return 1;
}

int ft_signals_catch(uint64_t signals)
{
    atomic_store(&taken, 0);
    atomic_store(&interrupts, 0);
    return catch_those(signals, false);
}

int ft_signals_catch_ignored(uint64_t signals)
{
    return catch_those(signals, true);
}

void ft_signals_release(void)
{
    for (int number = 1; number < MAX_SIGNALS; number++)
        if (caught >> number & 1)
            sigaction(number, &before[number], NULL);
    caught = 0;
}

uint64_t ft_signals_take(void)
{
    return atomic_exchange(&taken, 0);
}

uint32_t ft_signals_interrupts(void)
{
    return atomic_load(&interrupts);
}
