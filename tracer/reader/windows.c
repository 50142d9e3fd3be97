/* When dependences are looked for if not all the time: in windows of successive chunks, in which every access is read
 * on its own.
 *
 * A window begins where a chunk does, if the program stands in a loop of which too little is known (dependences.c says
 * so). How many chunks may be in windows grows with the stream: the same run has the same windows, whatever the machine
 * does meanwhile.
 */
#include "parts.h"

#define FREE_CHUNKS 64u /* may be in windows at first; */
#define CHUNKS_PER_EXAMINED 64u /* then one more for each so many */

void ft_reader_begin_chunk_of_windows(struct ft_reader *reader)
{
    if (!reader->has_windows)
        return;
    const uint64_t may_be = FREE_CHUNKS + reader->chunks_seen++ / CHUNKS_PER_EXAMINED;
    const uint64_t left = may_be > reader->chunks_examined ? may_be - reader->chunks_examined : 0;
    const uint32_t wanted =
        ft_dependences_wanted(reader->all_dependences, left < UINT32_MAX ? (uint32_t)left : UINT32_MAX);
    reader->chunks_wanted = wanted > reader->chunks_wanted ? wanted : reader->chunks_wanted;
    const bool looks = reader->chunks_wanted && left && !reader->flow_ended;
    reader->chunks_wanted -= looks;
    reader->chunks_examined += looks;
    if (looks && !reader->dependences)
        ft_dependences_resume(reader->all_dependences);
    reader->dependences = looks ? reader->all_dependences : NULL;
}
