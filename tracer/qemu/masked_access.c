/* See masked_access.h. Sources: Intel SDM volume 2, section 2.3 (VEX prefix) and the instructions' pages. In QEMU,
 * vector registers are `xmm_regs` of CPUX86State (target/i386/cpu.h), 64 bytes each, on a boundary of 16 behind
 * `mxcsr`. */
#define _GNU_SOURCE
#include "masked_access.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define REGISTER_BYTES 64u
#define NUM_REGISTERS 16u
#define MOST_OFFSET 4096u /* searched */
#define VECTOR_BYTES 32u
#define MXCSR_USUAL UINT32_C(0x1f80) /* all exceptions masked; Intel SDM volume 1, section 10.2.3 */
#define MXCSR_MAY_VARY UINT32_C(0x807f) /* what was raised, flushing to zero */

static _Atomic uint32_t registers_at; /* in `env`; 0: not known */
static atomic_bool is_guessed, is_sure;

/* The instruction that a thread is in. */
static _Thread_local struct {
    uint64_t first, bytes; /* loaded so far */
    uint32_t lanes;
    bool is_known, is_sure;
    unsigned char memory[VECTOR_BYTES]; /* that it loaded, where the mask is not known */
} now;

/* ---- instructions -------------------------------------------------------------------------------------------------- */

static bool is_prefix(unsigned char byte)
{
    return byte == 0x64 || byte == 0x65 || byte == 0x67 || byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e;
}

struct ft_masked ft_masked_of(const char *target, const unsigned char *code, size_t length)
{
    const struct ft_masked none = {0};
    for (; length > 0 && is_prefix(*code); code++)
        length--;
    if (strcmp(target, "x86_64") != 0 || length < 5 || code[0] != 0xc4)
        return none;
    const unsigned char last = code[2], opcode = code[3], modrm = code[4];
    if ((code[1] & 31) != 2 || (last & 3) != 1 || modrm >= 0xc0) /* 0F38, the prefix 66, memory */
        return none;
    const uint8_t element_bytes = opcode == 0x2c ? 4 : opcode == 0x2d ? 8 : opcode != 0x8c ? 0 : last & 0x80 ? 8 : 4;
    return (struct ft_masked){.element_bytes = element_bytes,
                              .vector_bytes = last & 4 ? 32 : 16,
                              .mask = ~(last >> 3) & 15,
                              .destination = (uint8_t)((modrm >> 3 & 7) | (code[1] & 0x80 ? 0 : 8))};
}

/* ---- registers ----------------------------------------------------------------------------------------------------- */

static uint32_t num_lanes(const struct ft_masked *masked)
{
    return masked->vector_bytes / masked->element_bytes;
}

/* The lanes that a mask has on: those whose highest bit is. */
static uint32_t lanes_of(const struct ft_masked *masked, const unsigned char *mask)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < num_lanes(masked); i++)
        lanes |= (uint32_t)(mask[(i + 1) * masked->element_bytes - 1] >> 7) << i;
    return lanes;
}

static const unsigned char *vector_register(const void *env, uint32_t at, uint32_t number)
{
    return (const unsigned char *)env + at + number * REGISTER_BYTES;
}

/* Whether a register holds what the lanes that are on loaded. `*tells` becomes whether that is no coincidence of zeros.
 */
static bool fits(const struct ft_masked *masked, uint32_t lanes, const unsigned char *loaded, bool *tells)
{
    static const unsigned char zeros[VECTOR_BYTES];
    *tells = false;
    for (uint32_t i = 0; i < num_lanes(masked); i++) {
        const size_t at = i * masked->element_bytes;
        const bool is_on = lanes >> i & 1;
        if (memcmp(loaded + at, is_on ? now.memory + at : zeros, masked->element_bytes) != 0)
            return false;
        *tells |= is_on && memcmp(now.memory + at, zeros, masked->element_bytes) != 0;
    }
    return true;
}

#define COPIED_BYTES (MOST_OFFSET + NUM_REGISTERS * REGISTER_BYTES)

/* Copies the beginning of `env`. False if that is not there: the system looks. */
static bool copy_env(const void *env, unsigned char *copy)
{
    int ends[2];
    if (!env || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    const bool is_there = write(ends[1], env, COPIED_BYTES) == (ssize_t)COPIED_BYTES &&
                          read(ends[0], copy, COPIED_BYTES) == (ssize_t)COPIED_BYTES;
    close(ends[0]);
    close(ends[1]);
    return is_there;
}

/* Before any load: the registers are behind mxcsr, which mostly has a value that nothing else has. */
static void guess(const void *env)
{
    unsigned char copy[COPIED_BYTES];
    uint32_t found = 0, places = 0;
    if (atomic_exchange(&is_guessed, true) || !copy_env(env, copy))
        return;
    for (uint32_t at = 0; at < MOST_OFFSET; at += 4) {
        uint32_t word;
        memcpy(&word, copy + at, sizeof word);
        if ((word & ~MXCSR_MAY_VARY) != MXCSR_USUAL)
            continue;
        found = (at + 4 + 15) / 16 * 16;
        places++;
    }
    if (places == 1)
        atomic_store(&registers_at, found);
}

/* After a load: by what it left. If several places fit, it is for another load to tell. */
static void learn(const struct ft_masked *masked, const void *env)
{
    unsigned char copy[COPIED_BYTES];
    uint32_t found = 0, places = 0;
    if (masked->mask == masked->destination || !copy_env(env, copy))
        return;
    for (uint32_t at = 16; at < MOST_OFFSET; at += 16) {
        bool tells;
        const uint32_t lanes = lanes_of(masked, vector_register(copy, at, masked->mask));
        if (fits(masked, lanes, vector_register(copy, at, masked->destination), &tells) && tells) {
            found = at;
            places++;
        }
    }
    if (places == 1) {
        atomic_store(&registers_at, found);
        atomic_store(&is_sure, true);
    }
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

void ft_masked_begins(const struct ft_masked *masked, const void *env)
{
    if (!atomic_load(&registers_at) && !atomic_load(&is_guessed))
        guess(env);
    const uint32_t at = atomic_load(&registers_at);
    now.bytes = 0;
    now.is_known = at && env;
    now.is_sure = atomic_load(&is_sure);
    if (now.is_known)
        now.lanes = lanes_of(masked, vector_register(env, at, masked->mask));
}

static uint32_t all_lanes(const struct ft_masked *masked)
{
    return (uint32_t)((UINT64_C(1) << num_lanes(masked)) - 1);
}

struct ft_masked_lanes ft_masked_loads(const struct ft_masked *masked, uint64_t address, uint64_t bytes,
                                       uint64_t guest_base)
{
    const bool is_first = now.bytes == 0;
    if (is_first)
        now.first = address;
    if (!now.is_sure && now.bytes + bytes <= VECTOR_BYTES)
        memcpy(now.memory + now.bytes, (const void *)(uintptr_t)(address + guest_base), bytes);
    now.bytes += bytes;
    if (!is_first || (!now.is_sure && masked->is_followed))
        return (struct ft_masked_lanes){0};
    return (struct ft_masked_lanes){address, now.is_known ? now.lanes : all_lanes(masked), !now.is_known};
}

struct ft_masked_lanes ft_masked_ended(const struct ft_masked *masked, const void *env)
{
    if (now.is_sure || now.bytes != masked->vector_bytes)
        return (struct ft_masked_lanes){0};
    now.bytes = 0;
    uint32_t at = atomic_load(&registers_at);
    bool tells;
    if (now.is_known && env && at && fits(masked, now.lanes, vector_register(env, at, masked->destination), &tells)) {
        if (tells)
            atomic_store(&is_sure, true);
        return (struct ft_masked_lanes){now.first, now.lanes, false};
    }
    atomic_store(&registers_at, 0); /* the guess was wrong */
    learn(masked, env);
    at = atomic_load(&registers_at);
    if (!at)
        return (struct ft_masked_lanes){now.first, all_lanes(masked), true};
    return (struct ft_masked_lanes){now.first, lanes_of(masked, vector_register(env, at, masked->mask)), false};
}
