/* See plain_access.h. Sources: Intel SDM volume 2, appendix A (opcode map); Arm ARM, C4.1 "Loads and Stores"; RISC-V
 * unprivileged ISA, chapters "RV32/64G Instruction Set Listings" and "C Standard Extension". */
#include "plain_access.h"

#include <stdint.h>
#include <string.h>

static enum ft_accesses load(struct ft_plain_access *access, unsigned size_shift)
{
    *access = (struct ft_plain_access){false, size_shift};
    return FT_ACCESSES_PLAIN;
}

static enum ft_accesses store(struct ft_plain_access *access, unsigned size_shift)
{
    *access = (struct ft_plain_access){true, size_shift};
    return FT_ACCESSES_PLAIN;
}

/* ---- x86-64 ------------------------------------------------------------------------------------------------------- */

struct x86_instruction {
    const unsigned char *opcode, *end;
    bool operand_16, repeat_f3, repeat_f2, wide;
};

static struct x86_instruction x86_prefixes(const unsigned char *code, size_t length)
{
    struct x86_instruction it = {.opcode = code, .end = code + length};
    for (; it.opcode < it.end; it.opcode++) {
        unsigned char byte = *it.opcode;
        if (byte == 0x66)
            it.operand_16 = true;
        else if (byte == 0xf3)
            it.repeat_f3 = true;
        else if (byte == 0xf2)
            it.repeat_f2 = true;
        else if (byte != 0x64 && byte != 0x65)
            break;
    }
    if (it.opcode < it.end && (*it.opcode & 0xf0) == 0x40) {
        it.wide = *it.opcode & 8;
        it.opcode++;
    }
    return it;
}

/* Behind 0f, with a ModRM byte that names memory. */
static enum ft_accesses x86_two_bytes(const struct x86_instruction *it, unsigned char opcode, unsigned operand_shift,
                                      struct ft_plain_access *access)
{
    const bool is_scalar = it->repeat_f3 != it->repeat_f2 && !it->operand_16;
    if (opcode == 0x10)
        return is_scalar ? load(access, it->repeat_f3 ? 2 : 3) : FT_ACCESSES_UNKNOWN;
    if (opcode == 0x11)
        return is_scalar ? store(access, it->repeat_f3 ? 2 : 3) : FT_ACCESSES_UNKNOWN;
    if (opcode == 0x51 || opcode == 0x58 || opcode == 0x59 || (opcode >= 0x5c && opcode <= 0x5f)) /* sqrt, add, ... */
        return is_scalar ? load(access, it->repeat_f3 ? 2 : 3) : FT_ACCESSES_UNKNOWN;
    if (opcode == 0x1f) /* nop */
        return FT_ACCESSES_NONE;
    if (it->repeat_f3 || it->repeat_f2)
        return FT_ACCESSES_UNKNOWN;
    if ((opcode & 0xf0) == 0x40 || opcode == 0xaf) /* cmovcc, which always loads; imul */
        return load(access, operand_shift);
    if (opcode == 0xb6 || opcode == 0xbe) /* movzx, movsx */
        return load(access, 0);
    return opcode == 0xb7 || opcode == 0xbf ? load(access, 1) : FT_ACCESSES_UNKNOWN;
}

/* One-byte opcodes with a ModRM byte that names memory; `extension` is its middle field. */
static enum ft_accesses x86_one_byte(unsigned char opcode, unsigned extension, unsigned operand_shift,
                                     struct ft_plain_access *access)
{
    if (opcode < 0x40) { /* add or adc sbb and sub xor cmp: op r, m; and cmp m, r */
        if ((opcode & 7) == 2 || opcode == 0x38)
            return load(access, 0);
        return (opcode & 7) == 3 || opcode == 0x39 ? load(access, operand_shift) : FT_ACCESSES_UNKNOWN;
    }
    const bool is_compare = extension == 7, is_move = extension == 0, is_test = extension <= 1;
    switch (opcode) {
    case 0x63: return load(access, 2); /* movsxd */
    case 0x69:
    case 0x6b: return load(access, operand_shift); /* imul */
    case 0x80: return is_compare ? load(access, 0) : FT_ACCESSES_UNKNOWN;
    case 0x81:
    case 0x83: return is_compare ? load(access, operand_shift) : FT_ACCESSES_UNKNOWN;
    case 0x84:
    case 0x8a: return load(access, 0); /* test, mov */
    case 0x85:
    case 0x8b: return load(access, operand_shift);
    case 0x88: return store(access, 0);
    case 0x89: return store(access, operand_shift);
    case 0x8d: return FT_ACCESSES_NONE; /* lea */
    case 0xc6: return is_move ? store(access, 0) : FT_ACCESSES_UNKNOWN;
    case 0xc7: return is_move ? store(access, operand_shift) : FT_ACCESSES_UNKNOWN;
    case 0xf6: return is_test ? load(access, 0) : FT_ACCESSES_UNKNOWN;
    case 0xf7: return is_test ? load(access, operand_shift) : FT_ACCESSES_UNKNOWN;
    default: return FT_ACCESSES_UNKNOWN;
    }
}

/* With a ModRM byte that names registers only: none of these opcodes accesses memory some other way. */
static enum ft_accesses x86_registers(unsigned char opcode, bool two)
{
    bool none;
    if (two) /* SSE but maskmov, endbr and nop, cmov, set, bt, shld, imul, movzx, bsf, bswap, ... */
        none = (opcode >= 0x10 && opcode <= 0x17) || (opcode >= 0x1e && opcode <= 0x1f) ||
               (opcode >= 0x28 && opcode <= 0x2f) || (opcode >= 0x40 && opcode <= 0x76) ||
               (opcode >= 0x7c && opcode <= 0x7f) || (opcode >= 0x90 && opcode <= 0x9f) || opcode == 0xa3 ||
               opcode == 0xa4 || opcode == 0xa5 || opcode == 0xab || (opcode >= 0xac && opcode <= 0xad) ||
               opcode == 0xaf || opcode == 0xb3 || (opcode >= 0xb6 && opcode <= 0xbf) || opcode == 0xc2 ||
               opcode == 0xc6 || (opcode >= 0xd0 && opcode <= 0xfe && opcode != 0xf7);
    else
        none = (opcode < 0x40 && (opcode & 7) < 4) || opcode == 0x63 || opcode == 0x69 || opcode == 0x6b ||
               (opcode >= 0x80 && opcode <= 0x8b) || opcode == 0xc0 || opcode == 0xc1 || opcode == 0xc6 ||
               opcode == 0xc7 || (opcode >= 0xd0 && opcode <= 0xd3) || opcode == 0xf6 || opcode == 0xf7;
    return none ? FT_ACCESSES_NONE : FT_ACCESSES_UNKNOWN;
}

/* Opcodes without a ModRM byte. */
static enum ft_accesses x86_alone(const struct x86_instruction *it, struct ft_plain_access *access)
{
    const unsigned char opcode = it->opcode[0];
    const bool bare = !it->operand_16 && !it->repeat_f3 && !it->repeat_f2;
    if ((opcode >= 0x50 && opcode <= 0x57) || opcode == 0xe8) /* push, call */
        return bare ? store(access, 3) : FT_ACCESSES_UNKNOWN;
    if ((opcode >= 0x58 && opcode <= 0x5f) || opcode == 0xc3) /* pop, ret */
        return bare ? load(access, 3) : FT_ACCESSES_UNKNOWN;
    const bool is_immediate = (opcode < 0x40 && ((opcode & 7) == 4 || (opcode & 7) == 5)) || opcode == 0xa8 ||
                              opcode == 0xa9 || (opcode >= 0xb0 && opcode <= 0xbf);
    const bool is_jump = (opcode >= 0x70 && opcode <= 0x7f) || opcode == 0xe9 || opcode == 0xeb;
    const bool is_other = opcode >= 0x90 && opcode <= 0x99; /* nop, xchg, cwde, cdq */
    return is_immediate || is_jump || is_other ? FT_ACCESSES_NONE : FT_ACCESSES_UNKNOWN;
}

static enum ft_accesses x86_accesses(const unsigned char *code, size_t length, struct ft_plain_access *access)
{
    const struct x86_instruction it = x86_prefixes(code, length);
    const size_t left = (size_t)(it.end - it.opcode);
    if (left == 0)
        return FT_ACCESSES_UNKNOWN;
    const bool two = it.opcode[0] == 0x0f;
    const enum ft_accesses alone = two ? FT_ACCESSES_UNKNOWN : x86_alone(&it, access);
    if (alone != FT_ACCESSES_UNKNOWN)
        return alone;
    if (left < (two ? 3u : 2u))
        return FT_ACCESSES_UNKNOWN;
    const unsigned char opcode = it.opcode[two], modrm = it.opcode[two + 1];
    if (two && opcode >= 0x80 && opcode <= 0x8f) /* jcc */
        return FT_ACCESSES_NONE;
    if (modrm >= 0xc0)
        return x86_registers(opcode, two);
    const unsigned operand_shift = it.wide ? 3 : it.operand_16 ? 1 : 2;
    if (two)
        return x86_two_bytes(&it, opcode, operand_shift, access);
    return it.repeat_f3 || it.repeat_f2 ? FT_ACCESSES_UNKNOWN
                                        : x86_one_byte(opcode, modrm >> 3 & 7, operand_shift, access);
}

/* ---- AArch64 ------------------------------------------------------------------------------------------------------ */

static enum ft_accesses aarch64_load_or_store(uint32_t word, struct ft_plain_access *access)
{
    const unsigned size_shift = word >> 30, operation = word >> 22 & 3;
    const bool vector = word >> 26 & 1;
    if ((word & 0xbf000000u) == 0x18000000u) /* ldr of a literal, 4 or 8 bytes */
        return load(access, 2 + (size_shift & 1));
    const bool immediate = (word & 0x3b000000u) == 0x39000000u;
    const bool other = (word & 0x3b200000u) == 0x38000000u && (word & 0xc00u) != 0x800u; /* unscaled, pre, post */
    const bool indexed = (word & 0x3b200c00u) == 0x38200800u;
    if (!immediate && !other && !indexed)
        return FT_ACCESSES_UNKNOWN;
    if (operation == 0)
        return store(access, size_shift);
    if (operation == 1)
        return load(access, size_shift);
    const bool is_signed = !vector && size_shift < 3 && !(size_shift == 2 && operation == 3);
    return is_signed ? load(access, size_shift) : FT_ACCESSES_UNKNOWN;
}

static enum ft_accesses aarch64_accesses(const unsigned char *code, size_t length, struct ft_plain_access *access)
{
    if (length != 4)
        return FT_ACCESSES_UNKNOWN;
    const uint32_t word = code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 | (uint32_t)code[3] << 24;
    const unsigned group = word >> 25 & 15; /* op0 of the top-level encoding */
    if ((group & 5) == 4)
        return aarch64_load_or_store(word, access);
    const bool is_data = (group & 14) == 8 || (group & 7) == 5 || (group & 7) == 7;
    const bool is_hint = (word & 0xfffff01fu) == 0xd503201fu;                         /* nop, bti, paciasp, ... */
    const bool is_branch = (group & 14) == 10 && (word & 0xfe000000u) != 0xd4000000u; /* these: exceptions, system */
    return is_data || is_branch || is_hint ? FT_ACCESSES_NONE : FT_ACCESSES_UNKNOWN;
}

/* ---- RISC-V ------------------------------------------------------------------------------------------------------- */

static enum ft_accesses riscv64_compressed(unsigned word, struct ft_plain_access *access)
{
    const unsigned operation = word >> 13, quadrant = word & 3;
    if (quadrant == 1 || operation == 0 || (quadrant == 2 && operation == 4))
        return FT_ACCESSES_NONE;
    if (quadrant == 2 && (operation == 2 || operation == 3) && (word >> 7 & 31) == 0) /* reserved */
        return FT_ACCESSES_UNKNOWN;
    switch (operation) {
    case 1:
    case 3: return load(access, 3);
    case 2: return load(access, 2);
    case 5:
    case 7: return store(access, 3);
    case 6: return store(access, 2);
    default: return FT_ACCESSES_UNKNOWN;
    }
}

static enum ft_accesses riscv64_accesses(const unsigned char *code, size_t length, struct ft_plain_access *access)
{
    if (length == 2)
        return riscv64_compressed(code[0] | (unsigned)code[1] << 8, access);
    if (length != 4)
        return FT_ACCESSES_UNKNOWN;
    const unsigned opcode = code[0] & 0x7f, width = code[1] >> 4 & 7;
    const bool is_float_width = width == 2 || width == 3; /* the others of these opcodes are vectors */
    switch (opcode) {
    case 0x03: return width < 7 ? load(access, width & 3) : FT_ACCESSES_UNKNOWN;
    case 0x23: return width < 4 ? store(access, width) : FT_ACCESSES_UNKNOWN;
    case 0x07: return is_float_width ? load(access, width) : FT_ACCESSES_UNKNOWN;
    case 0x27: return is_float_width ? store(access, width) : FT_ACCESSES_UNKNOWN;
    case 0x13:
    case 0x17:
    case 0x1b:
    case 0x33:
    case 0x37:
    case 0x3b: /* integer */
    case 0x43:
    case 0x47:
    case 0x4b:
    case 0x4f:
    case 0x53: /* floating point */
    case 0x63:
    case 0x67:
    case 0x6f: /* branches */ return FT_ACCESSES_NONE;
    default: return FT_ACCESSES_UNKNOWN;
    }
}

/* ---- any ---------------------------------------------------------------------------------------------------------- */

static enum ft_accesses unknown_accesses(const unsigned char *code, size_t length, struct ft_plain_access *access)
{
    (void)code, (void)length, (void)access;
    return FT_ACCESSES_UNKNOWN;
}

ft_accesses_of *ft_accesses_on(const char *target_name)
{
    if (strcmp(target_name, "x86_64") == 0)
        return x86_accesses;
    if (strcmp(target_name, "aarch64") == 0)
        return aarch64_accesses;
    return strcmp(target_name, "riscv64") == 0 ? riscv64_accesses : unknown_accesses;
}
