/* usage: tree_search [KEYS [SEARCHES]]
 *
 * An unbalanced binary search tree, filled with random keys, and searches of it: what is not found is added while there
 * is room.
 */
#include "program.h"

struct node {
    struct node *smaller, *larger;
    uint32_t key, found;
};

/* Returns where the key is, or would be. */
KERNEL static struct node **search(struct node **place, uint32_t key)
{
    while (*place && (*place)->key != key)
        place = key < (*place)->key ? &(*place)->smaller : &(*place)->larger;
    return place;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "tree_search [KEYS [SEARCHES]]");
    size_t keys = number_argument(argc, argv, 1, 190007, 1, 10000000);
    size_t searches = number_argument(argc, argv, 2, 2500003, 1, SIZE_MAX / 2), used = 0, missing = 0;
    struct node *nodes = allocate_array(keys, sizeof *nodes), *root = NULL;
    uint64_t state = 32, checksum = 0;
    for (size_t i = 0; i < searches; i++) {
        uint32_t key = (uint32_t)random_below(&state, keys + keys / 2);
        struct node **place = search(&root, key);
        if (*place)
            (*place)->found++;
        else if (used < keys)
            *(*place = &nodes[used++]) = (struct node){.key = key};
        else
            missing++;
    }
    for (size_t i = 0; i < used; i++)
        checksum = checksum * 31 + nodes[i].found;
    printf("keys %zu  missing %zu  checksum %016" PRIx64 "\n", used, missing, checksum);
    return 0;
}
