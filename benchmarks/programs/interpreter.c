/* usage: interpreter [LIMIT]
 *
 * An interpreter of a small register machine, running a program that finds the longest Collatz sequence of the numbers
 * below LIMIT: one unpredictable indirect jump for each instruction.
 */
#include "program.h"

enum opcode { SET, COPY, ADD, SUBTRACT, MULTIPLY, HALVE, AND, JUMP, JUMP_IF_ZERO, JUMP_IF_LESS, STOP };

struct instruction {
    enum opcode opcode;
    int a, b, c; /* registers; for SET c is the number, for jumps the target */
};

enum { NUMBER, VALUE, STEPS, BEST, BEST_NUMBER, ONE, THREE, LIMIT, SPARE, REGISTERS };

/* clang-format off */
static const struct instruction COLLATZ[] = {
    /*  0 */ {SET, ONE, 0, 1},
    /*  1 */ {SET, THREE, 0, 3},
    /*  2 */ {SET, BEST, 0, 0},
    /*  3 */ {SET, NUMBER, 0, 1},
    /*  4 */ {JUMP_IF_LESS, NUMBER, LIMIT, 6},
    /*  5 */ {STOP, 0, 0, 0},
    /*  6 */ {COPY, VALUE, NUMBER, 0},
    /*  7 */ {SET, STEPS, 0, 0},
    /*  8 */ {JUMP_IF_LESS, ONE, VALUE, 10},
    /*  9 */ {JUMP, 0, 0, 17},
    /* 10 */ {ADD, STEPS, STEPS, ONE},
    /* 11 */ {AND, SPARE, VALUE, ONE},
    /* 12 */ {JUMP_IF_ZERO, SPARE, 0, 15},
    /* 13 */ {MULTIPLY, VALUE, VALUE, THREE},
    /* 14 */ {ADD, VALUE, VALUE, ONE},
    /* 15 */ {HALVE, VALUE, VALUE, 0},
    /* 16 */ {JUMP, 0, 0, 8},
    /* 17 */ {JUMP_IF_LESS, BEST, STEPS, 20},
    /* 18 */ {ADD, NUMBER, NUMBER, ONE},
    /* 19 */ {JUMP, 0, 0, 4},
    /* 20 */ {COPY, BEST, STEPS, 0},
    /* 21 */ {COPY, BEST_NUMBER, NUMBER, 0},
    /* 22 */ {JUMP, 0, 0, 18},
};
/* clang-format on */

/* Runs a program to its STOP; returns how many instructions that took. */
KERNEL static uint64_t run(const struct instruction *code, uint64_t *registers)
{
    uint64_t executed = 0;
    for (const struct instruction *next = code;; executed++) {
        const struct instruction *i = next++;
        uint64_t *a = registers + i->a, b = registers[i->b], c = registers[i->c < REGISTERS ? i->c : 0];
        switch (i->opcode) {
        case SET: *a = (uint64_t)i->c; break;
        case COPY: *a = b; break;
        case ADD: *a = b + c; break;
        case SUBTRACT: *a = b - c; break;
        case MULTIPLY: *a = b * c; break;
        case HALVE: *a = b >> 1; break;
        case AND: *a = b & c; break;
        case JUMP: next = code + i->c; break;
        case JUMP_IF_ZERO: next = *a ? next : code + i->c; break;
        case JUMP_IF_LESS: next = *a < b ? code + i->c : next; break;
        case STOP: return executed;
        }
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "interpreter [LIMIT]");
    uint64_t registers[REGISTERS] = {[LIMIT] = number_argument(argc, argv, 1, 159000, 2, 1000000000)};
    uint64_t executed = run(COLLATZ, registers);
    printf("limit %" PRIu64 "  instructions %" PRIu64 "  longest %" PRIu64 "  checksum %" PRIu64 "\n", registers[LIMIT],
           executed, registers[BEST], registers[BEST_NUMBER]);
    return 0;
}
