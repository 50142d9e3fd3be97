/* usage: hash_join [BUILD_ROWS [PROBE_ROWS]]
 *
 * Joins two tables on a key: a hash table is built of the smaller one (open addressing, linear probing), the rows of the
 * larger look their key up in it, half of them in vain, and values of matching rows are summed up in groups.
 */
#include "program.h"

enum { GROUPS = 251 };

struct row {
    uint32_t key, value;
};

struct table {
    size_t mask;
    struct row *slots; /* key 0: empty */
};

static size_t slot_of(const struct table *table, uint32_t key)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & table->mask;
}

KERNEL static struct table build_table(size_t rows, const struct row *build)
{
    size_t slots = 8;
    while (slots < rows * 3 / 2)
        slots *= 2;
    struct table table = {slots - 1, allocate_array(slots, sizeof *table.slots)};
    for (size_t i = 0; i < rows; i++) {
        size_t slot = slot_of(&table, build[i].key);
        while (table.slots[slot].key)
            slot = (slot + 1) & table.mask;
        table.slots[slot] = build[i];
    }
    return table;
}

/* Adds value x value of each match to the group of the probing row; returns the number of matches. */
KERNEL static size_t probe_table(const struct table *table, size_t rows, const struct row *probe, uint64_t *groups)
{
    size_t matches = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t slot = slot_of(table, probe[i].key);
        for (; table->slots[slot].key; slot = (slot + 1) & table->mask)
            if (table->slots[slot].key == probe[i].key) {
                groups[probe[i].value % GROUPS] += (uint64_t)table->slots[slot].value * probe[i].value;
                matches++;
                break;
            }
    }
    return matches;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "hash_join [BUILD_ROWS [PROBE_ROWS]]");
    size_t build_rows = number_argument(argc, argv, 1, 700000, 1, 20000000);
    size_t probe_rows = number_argument(argc, argv, 2, 6100000, 1, 60000000);
    struct row *build = allocate_array(build_rows, sizeof *build), *probe = allocate_array(probe_rows, sizeof *probe);
    uint64_t state = 17;
    for (size_t i = 0; i < build_rows; i++) /* keys 1, 3, 5, ... in no order */
        build[i] = (struct row){(uint32_t)(2 * i + 1), (uint32_t)(random_u64(&state) >> 48)};
    for (size_t i = build_rows; i-- > 1;) {
        size_t other = random_below(&state, i + 1);
        struct row keep = build[i];
        build[i] = build[other];
        build[other] = keep;
    }
    for (size_t i = 0; i < probe_rows; i++)
        probe[i] = (struct row){(uint32_t)(1 + random_below(&state, 2 * build_rows)), (uint32_t)(random_u64(&state) >> 48)};
    struct table table = build_table(build_rows, build);
    static uint64_t groups[GROUPS];
    size_t matches = probe_table(&table, probe_rows, probe, groups);
    uint64_t checksum = 0;
    for (size_t g = 0; g < GROUPS; g++)
        checksum = checksum * 31 + groups[g];
    printf("rows %zu x %zu  matches %zu  checksum %016" PRIx64 "\n", build_rows, probe_rows, matches, checksum);
    return 0;
}
