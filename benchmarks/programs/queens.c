/* usage: queens [SIDE]
 *
 * In how many ways SIDE queens can stand on a chessboard of that side: recursion over rows, sets as bits.
 */
#include "program.h"

static uint64_t solutions, positions;

/* `columns`, `left` and `right` are the squares of this row that queens above attack. */
KERNEL static void place(uint32_t all, uint32_t columns, uint32_t left, uint32_t right)
{
    positions++;
    if (columns == all) {
        solutions++;
        return;
    }
    for (uint32_t free = all & ~(columns | left | right); free; free &= free - 1) {
        uint32_t square = free & -free;
        place(all, columns | square, (left | square) << 1, (right | square) >> 1);
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "queens [SIDE]");
    size_t side = number_argument(argc, argv, 1, 14, 1, 20);
    place((1u << side) - 1, 0, 0, 0);
    printf("side %zu  solutions %" PRIu64 "  checksum %" PRIu64 "\n", side, solutions, positions);
    return 0;
}
