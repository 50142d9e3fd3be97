/* See endings.h. Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, appendix A; Arm
 * Architecture Reference Manual for A-profile (DDI 0487), section C4.1; The RISC-V Instruction Set Manual, volume I,
 * sections 2.5 and 16.4, table 2.1 (which registers hold return addresses). Of procedure linkage tables: System V ABI,
 * AMD64 supplement, section 5.2, "Procedure Linkage Table"; Procedure Call Standard for the Arm 64-bit Architecture,
 * section 6.1.1 (IP0 and IP1); RISC-V ELF psABI, "Program Linkage Table". */
#include "endings.h"

#include <stdbool.h>
#include <string.h>

/* The `bits` lowest bits of a number, as a signed one. */
static int64_t sign_extended(uint64_t value, unsigned bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static uint32_t word_at(const unsigned char *code, uint32_t bytes)
{
    uint32_t word = 0;
    memcpy(&word, code, bytes);
    return word;
}

/* ---- x86-64 ----------------------------------------------------------------------------------------------------- */

static bool is_prefix(unsigned char byte)
{
    return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x36 ||
           byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65 || byte == 0xf0;
}

/* A direct jump or call with a displacement of some bytes at its end. */
static enum ft_ending relative(enum ft_ending ending, const unsigned char *at, uint32_t left, uint32_t bytes,
                               uint64_t end, uint64_t *target)
{
    if (left != bytes)
        return FT_ENDING_PLAIN;
    *target = end + (uint64_t)sign_extended(word_at(at, bytes), 8 * bytes);
    return ending;
}

static enum ft_ending x86_64(const unsigned char *code, uint32_t length, uint64_t end, uint64_t *target)
{
    uint32_t i = 0;
    while (i < length && is_prefix(code[i]))
        i++;
    if (i < length && (code[i] & 0xf0) == 0x40) /* REX */
        i++;
    const uint32_t left = length - i; /* the opcode included */
    if (left == 0)
        return FT_ENDING_PLAIN;
    const unsigned char opcode = code[i], next = left > 1 ? code[i + 1] : 0;
    if (opcode == 0xe8 || opcode == 0xe9)
        return relative(opcode == 0xe8 ? FT_ENDING_CALL : FT_ENDING_JUMP, code + i + 1, left - 1, 4, end, target);
    if (opcode == 0xeb)
        return relative(FT_ENDING_JUMP, code + i + 1, left - 1, 1, end, target);
    if ((opcode & 0xf0) == 0x70 || (opcode & 0xfc) == 0xe0)
        return relative(FT_ENDING_BRANCH, code + i + 1, left - 1, 1, end, target);
    if (opcode == 0x0f && left > 1 && (next & 0xf0) == 0x80)
        return relative(FT_ENDING_BRANCH, code + i + 2, left - 2, 4, end, target);
    if (opcode == 0xc3 || opcode == 0xcb || ((opcode == 0xc2 || opcode == 0xca) && left == 3))
        return FT_ENDING_RETURN;
    if (opcode == 0xff && left > 1 && (next >> 3 & 6) == 2)
        return FT_ENDING_CALL;
    if (opcode == 0xff && left > 1 && (next >> 3 & 6) == 4)
        return FT_ENDING_INDIRECT_JUMP;
    const bool is_system_call = left == 2 && ((opcode == 0x0f && next == 0x05) || (opcode == 0xcd && next == 0x80));
    return is_system_call ? FT_ENDING_SYSTEM_CALL : FT_ENDING_PLAIN;
}

/* ---- AArch64 ---------------------------------------------------------------------------------------------------- */

static enum ft_ending aarch64(const unsigned char *code, uint32_t length, uint64_t address, uint64_t *target)
{
    if (length != 4)
        return FT_ENDING_PLAIN;
    const uint32_t word = word_at(code, 4);
    if ((word & 0x7c000000) == 0x14000000) {
        *target = address + (uint64_t)(4 * sign_extended(word, 26));
        return word >> 31 ? FT_ENDING_CALL : FT_ENDING_JUMP;
    }
    if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {
        *target = address + (uint64_t)(4 * sign_extended(word >> 5, 19));
        return FT_ENDING_BRANCH;
    }
    if ((word & 0x7e000000) == 0x36000000) {
        *target = address + (uint64_t)(4 * sign_extended(word >> 5, 14));
        return FT_ENDING_BRANCH;
    }
    if ((word & 0xfe000000) == 0xd6000000) { /* to a register; bit 24 says that it is authenticated first */
        const uint32_t operation = word >> 21 & 7;
        return operation == 1   ? FT_ENDING_CALL
               : operation == 2 ? FT_ENDING_RETURN
               : operation == 0 ? FT_ENDING_INDIRECT_JUMP
                                : FT_ENDING_PLAIN;
    }
    return (word & 0xffe0001f) == 0xd4000001 ? FT_ENDING_SYSTEM_CALL : FT_ENDING_PLAIN;
}

/* ---- RISC-V ----------------------------------------------------------------------------------------------------- */

static bool is_link(uint32_t reg)
{
    return reg == 1 || reg == 5;
}

static enum ft_ending register_jump(uint32_t rd, uint32_t rs1)
{
    return is_link(rd) ? FT_ENDING_CALL : is_link(rs1) && rd == 0 ? FT_ENDING_RETURN : FT_ENDING_INDIRECT_JUMP;
}

static enum ft_ending compressed(uint32_t word, uint64_t address, uint64_t *target)
{
    const uint32_t quadrant = word & 3, function = word >> 13, rs1 = word >> 7 & 31;
    if (quadrant == 1 && function == 5) {
        const uint32_t offset = (word >> 12 & 1) << 11 | (word >> 11 & 1) << 4 | (word >> 9 & 3) << 8 |
                                (word >> 8 & 1) << 10 | (word >> 7 & 1) << 6 | (word >> 6 & 1) << 7 |
                                (word >> 3 & 7) << 1 | (word >> 2 & 1) << 5;
        *target = address + (uint64_t)sign_extended(offset, 12);
        return FT_ENDING_JUMP;
    }
    if (quadrant == 1 && function >= 6) {
        const uint32_t offset = (word >> 12 & 1) << 8 | (word >> 10 & 3) << 3 | (word >> 5 & 3) << 6 |
                                (word >> 3 & 3) << 1 | (word >> 2 & 1) << 5;
        *target = address + (uint64_t)sign_extended(offset, 9);
        return FT_ENDING_BRANCH;
    }
    if (quadrant == 2 && function == 4 && rs1 && !(word >> 2 & 31))
        return register_jump(word >> 12 & 1, rs1);
    return FT_ENDING_PLAIN;
}

static enum ft_ending riscv64(const unsigned char *code, uint32_t length, uint64_t address, uint64_t *target)
{
    if (length == 2)
        return compressed(word_at(code, 2), address, target);
    if (length != 4)
        return FT_ENDING_PLAIN;
    const uint32_t word = word_at(code, 4), rd = word >> 7 & 31, rs1 = word >> 15 & 31;
    switch (word & 0x7f) {
    case 0x6f: {
        const uint32_t offset =
            (word >> 31) << 20 | (word >> 12 & 0xff) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3ff) << 1;
        *target = address + (uint64_t)sign_extended(offset, 21);
        return is_link(rd) ? FT_ENDING_CALL : FT_ENDING_JUMP;
    }
    case 0x67: return register_jump(rd, rs1);
    case 0x63: {
        const uint32_t offset =
            (word >> 31) << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 0x3f) << 5 | (word >> 8 & 15) << 1;
        *target = address + (uint64_t)sign_extended(offset, 13);
        return FT_ENDING_BRANCH;
    }
    default: return word == 0x73 ? FT_ENDING_SYSTEM_CALL : FT_ENDING_PLAIN;
    }
}

enum ft_ending ft_ending_of(enum ft_guest guest, const unsigned char *code, uint32_t length, uint64_t address,
                            uint64_t *target)
{
    *target = 0;
    switch (guest) {
    case FT_GUEST_X86_64: return x86_64(code, length, address + length, target);
    case FT_GUEST_AARCH64: return aarch64(code, length, address, target);
    case FT_GUEST_RISCV64: return riscv64(code, length, address, target);
    default: return FT_ENDING_PLAIN;
    }
}

/* ---- procedure linkage tables ----------------------------------------------------------------------------------- */

#define X86_MODRM_MEMORY_RIP(operation) (uint8_t)((operation) << 3 | 5) /* of opcode 0xff: 4 jumps, 6 pushes */
#define AARCH64_BTI_C UINT32_C(0xd503245f)
#define AARCH64_SAVE_IP0_LR UINT32_C(0xa9bf7bf0) /* stp x16, x30, [sp, #-16]! */
#define RISCV_SUB_T1_T1_T3 UINT32_C(0x41c30333)
#define RISCV_JR_T3 UINT32_C(0x000e0067)

static enum ft_linkage x86_64_linkage(const unsigned char *code, uint32_t bytes, uint32_t length)
{
    const unsigned char *jump = code + bytes - length;
    while (length > 6 && is_prefix(*jump)) {
        jump++;
        length--;
    }
    if (length != 6 || jump[0] != 0xff || jump[1] != X86_MODRM_MEMORY_RIP(4))
        return FT_LINKAGE_NONE;
    const bool pushes = bytes - length >= 6 && code[0] == 0xff && code[1] == X86_MODRM_MEMORY_RIP(6);
    return pushes && jump - code <= 7 ? FT_LINKAGE_LAZY : FT_LINKAGE_STUB; /* 7: the jump has a prefix */
}

static enum ft_linkage aarch64_linkage(const unsigned char *code, uint32_t bytes)
{
    const uint32_t jump = word_at(code + bytes - 4, 4);
    if ((jump & 0xffffffdf) != 0xd61f0200) /* to x16 or x17, the registers of linkage */
        return FT_LINKAGE_NONE;
    const uint32_t first = word_at(code, 4);
    const bool saves = first == AARCH64_SAVE_IP0_LR ||
                       (first == AARCH64_BTI_C && bytes > 8 && word_at(code + 4, 4) == AARCH64_SAVE_IP0_LR);
    return saves ? FT_LINKAGE_LAZY : FT_LINKAGE_STUB;
}

static enum ft_linkage riscv64_linkage(const unsigned char *code, uint32_t bytes, uint32_t length)
{
    const uint32_t jump = length == 4 ? word_at(code + bytes - 4, 4) : 0;
    if (jump == RISCV_JR_T3 && bytes > 8 && word_at(code + 4, 4) == RISCV_SUB_T1_T1_T3)
        return FT_LINKAGE_LAZY;
    return (jump & 0xfff) == 0x367 ? FT_LINKAGE_STUB : FT_LINKAGE_NONE; /* jalr t1: t1 tells the resolver which one */
}

enum ft_linkage ft_linkage_of(enum ft_guest guest, const unsigned char *code, uint32_t bytes, uint32_t length)
{
    switch (guest) {
    case FT_GUEST_X86_64: return x86_64_linkage(code, bytes, length);
    case FT_GUEST_AARCH64: return aarch64_linkage(code, bytes);
    case FT_GUEST_RISCV64: return riscv64_linkage(code, bytes, length);
    default: return FT_LINKAGE_NONE;
    }
}
