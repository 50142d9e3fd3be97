/* What a rank counts of its own calls, printed at its end: "tally RANK KIND PEER BYTES TIMES". PEER is a rank in
 * MPI_COMM_WORLD, or the root's in the communicator; -1: any. */
#include <stdio.h>
#include <string.h>

static struct {
    char kind[32];
    int peer;
    long bytes, times;
} tallied[4096];
static int tallies;

static void tally(const char *kind, int peer, long bytes, long times)
{
    for (int i = 0; i < tallies; i++)
        if (!strcmp(tallied[i].kind, kind) && tallied[i].peer == peer && tallied[i].bytes == bytes) {
            tallied[i].times += times;
            return;
        }
    snprintf(tallied[tallies].kind, sizeof tallied[tallies].kind, "%s", kind);
    tallied[tallies].peer = peer;
    tallied[tallies].bytes = bytes;
    tallied[tallies++].times = times;
}

static void print_tallies(int rank)
{
    for (int i = 0; i < tallies; i++)
        if (tallied[i].times)
            printf("tally %d %s %d %ld %ld\n", rank, tallied[i].kind, tallied[i].peer, tallied[i].bytes,
                   tallied[i].times);
    fflush(stdout);
}
