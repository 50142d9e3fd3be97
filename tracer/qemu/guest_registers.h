/* Registers of the traced program, read where a block begins.
 *
 * QEMU's plugins cannot ask for them before QEMU 9. But where a block begins, all of them are in QEMU's record of the
 * processor (`env`), whose address translated code keeps in one register of this machine: TCG_AREG0, which is rbp on
 * x86-64 and x19 on AArch64 (QEMU, tcg/i386/tcg-target.h, tcg/aarch64/tcg-target.h). The record begins with the
 * registers (CPUX86State, CPUArchState of target/riscv), on AArch64 behind 16 of 32 bits (CPUARMState). All of this
 * holds for QEMU 4 to 10, and it is made sure of while the program runs before anything is read: what follows a system
 * call must have its result and its arguments (ft_registers_check).
 */
#ifndef FORETRACE_GUEST_REGISTERS_H
#define FORETRACE_GUEST_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this machine keeps the address where it is known; `target` is the architecture that QEMU runs. */
bool ft_registers_begin(const char *target);

/* Compares the registers that `env` may have with a system call's result and first arguments. Reads nothing that is not
 * there. */
bool ft_registers_check(const void *env, int64_t result, const uint64_t arguments[2]);

uint64_t ft_register_argument(const void *env, unsigned int number); /* of a call; up to 3 */
uint64_t ft_register_result(const void *env);
uint64_t ft_register_stack(const void *env);

/* Where a function that was just called returns to, and the stack pointer once it has. `guest_base` as in struct
 * ft_header. */
uint64_t ft_register_return(const void *env, uint64_t guest_base, uint64_t *stack);

/* Declares `name`, to be registered as what QEMU calls when a block runs, and has it call `name`_with(vcpu, context,
 * env). */
#if defined __x86_64__
#define FT_WITH_REGISTERS(name)                                                                                                \
    void name(unsigned int vcpu, void *context);                                                                               \
    void name##_with(unsigned int vcpu, void *context, const void *env);                                                       \
    __asm__(".pushsection .text\n.hidden " #name "\n.hidden " #name "_with\n.type " #name ", @function\n" #name                \
            ":\n\tmovq %rbp, %rdx\n\tjmp " #name "_with\n.size " #name ", . - " #name "\n.popsection")
#elif defined __aarch64__
#define FT_WITH_REGISTERS(name)                                                                                                \
    void name(unsigned int vcpu, void *context);                                                                               \
    void name##_with(unsigned int vcpu, void *context, const void *env);                                                       \
    __asm__(".pushsection .text\n.hidden " #name "\n.hidden " #name "_with\n.type " #name ", %function\n" #name                \
            ":\n\tmov x2, x19\n\tb " #name "_with\n.size " #name ", . - " #name "\n.popsection")
#else
#define FT_WITH_REGISTERS(name)                                                                                                \
    void name##_with(unsigned int vcpu, void *context, const void *env);                                                       \
    static void name(unsigned int vcpu, void *context) { name##_with(vcpu, context, 0); }
#endif

#endif
