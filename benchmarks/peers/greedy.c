/* usage: greedy blocks COUNT INSTRUCTIONS | edges BLOCKS JUMPS | footprint MIB | threads COUNT
 *
 * A program that makes a tracer keep as much as it can: very many basic blocks of its own making (x86-64 only), each
 * with many memory operations; very many different jumps between a few blocks; a huge footprint, touched at random;
 * very many threads at once.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static unsigned char *place_for_code(size_t bytes)
{
    unsigned char *code =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (code == MAP_FAILED) {
        perror("greedy: mmap");
        exit(1);
    }
    return code;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* Each block is `instructions` loads, mov rax, [rdi], and a jump to the next, jmp +0. */
static void blocks(size_t count, size_t instructions)
{
    static const unsigned char load[] = {0x48, 0x8b, 0x07}, jump[] = {0xeb, 0x00};
    unsigned char *code = place_for_code(count * (instructions * sizeof load + sizeof jump) + 1), *end = code;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < instructions; k++, end += sizeof load)
            memcpy(end, load, sizeof load);
        memcpy(end, jump, sizeof jump);
        end += sizeof jump;
    }
    *end = 0xc3; /* ret */
    uint64_t value = 1;
    ((void (*)(uint64_t *))(void *)code)(&value);
}

/* Each block goes to the one that is next in a long random list: add rdi, 8; jmp [rdi]. */
static void edges(size_t count, size_t jumps)
{
    static const unsigned char jump[] = {0x48, 0x83, 0xc7, 0x08, 0xff, 0x27};
    unsigned char *code = place_for_code(count * sizeof jump + 1), **list = malloc((jumps + 2) * sizeof *list);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < count; i++)
        memcpy(code + i * sizeof jump, jump, sizeof jump);
    code[count * sizeof jump] = 0xc3;
    for (size_t i = 0; i <= jumps; i++)
        list[i] = code + next_random(&state) % count * sizeof jump;
    list[jumps + 1] = code + count * sizeof jump;
    ((void (*)(unsigned char **))(void *)code)(list);
    free(list);
}

static void footprint(size_t mib)
{
    size_t lines = mib << 20 >> 6;
    unsigned char *memory = place_for_code(mib << 20);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < lines; i++)
        memory[next_random(&state) % lines << 6]++;
}

static pthread_barrier_t all_here;

static void *work(void *unused)
{
    enum { BYTES = 1 << 20 };
    volatile unsigned char *memory = malloc(BYTES);
    pthread_barrier_wait(&all_here);
    for (size_t i = 0; memory && i < BYTES; i += 64)
        memory[i]++;
    pthread_barrier_wait(&all_here);
    free((void *)memory);
    return unused;
}

static void threads(size_t count)
{
    pthread_t *thread = calloc(count, sizeof *thread);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 17);
    pthread_barrier_init(&all_here, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&thread[i], &attributes, work, NULL) != 0) {
            perror("greedy: pthread_create");
            exit(1);
        }
    for (size_t i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    free(thread);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    size_t first = argc > 2 ? strtoul(argv[2], NULL, 10) : 0, second = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (!strcmp(what, "blocks") && second)
        blocks(first, second);
    else if (!strcmp(what, "edges") && second)
        edges(first, second);
    else if (!strcmp(what, "footprint"))
        footprint(first);
    else if (!strcmp(what, "threads"))
        threads(first);
    else
        fputs("usage: greedy blocks COUNT INSTRUCTIONS | edges BLOCKS JUMPS | footprint MIB | threads COUNT\n", stderr);
    return 0;
}
