/* When dependences are looked for if not all the time: in windows of successive chunks.
 *
 * The beginning of a run is read so: short programs, and the beginning of long ones, are complete. Then a window lies somewhere
 * in each period: short ones for inner loops, longer ones now and then for those around them. In all, 4 % of the chunks are in
 * one. In a window every access is read on its own.
 */
#include "parts.h"

#define FIRST_CHUNKS 256u /* 2^21 words */
#define PERIOD_CHUNKS 128u
#define SHORT_CHUNKS 2u
#define LONG_CHUNKS 32u
#define LONG_PERIODS 16u /* one in so many has a long window, */
#define WHOLE_PERIODS 64u /* and one in so many is a window */

/* Whether a chunk, by its number, is in a window. */
static bool is_in_window(uint64_t chunk)
{
    if (chunk < FIRST_CHUNKS)
        return true;
    const uint64_t period = (chunk - FIRST_CHUNKS) / PERIOD_CHUNKS, within = (chunk - FIRST_CHUNKS) % PERIOD_CHUNKS;
    const uint64_t length = period % WHOLE_PERIODS == WHOLE_PERIODS - 1 ? PERIOD_CHUNKS
                            : period % LONG_PERIODS == LONG_PERIODS - 1 ? LONG_CHUNKS
                                                                        : SHORT_CHUNKS;
    const uint64_t hash = (period + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32; /* Knuth, TAOCP 3, section 6.4 */
    const uint64_t begin = hash % (PERIOD_CHUNKS - length + 1);
    return within >= begin && within < begin + length;
}

void ft_reader_begin_chunk_of_windows(struct ft_reader *reader)
{
    if (!reader->has_windows)
        return;
    const bool looks = is_in_window(reader->chunks_seen++) && !reader->flow_ended;
    if (looks && !reader->dependences)
        ft_dependences_resume(reader->all_dependences);
    reader->dependences = looks ? reader->all_dependences : NULL;
}
