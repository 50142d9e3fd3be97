/* Bursts that the reader makes by itself, of a stream with all accesses: between bursts it counts the accesses of array
 * operations, and hands none over. See parts.h.
 *
 * The clock of the phases is `seen`, accesses of array operations, so that each access is as likely to be in a burst as
 * any other. Records are taken apart where a phase ends (arrays.c).
 */
#include "parts.h"

void ft_reader_sample(struct ft_reader *reader, struct ft_schedule lengths)
{
    const uint32_t unit = FT_CHUNK_WORDS;
    lengths.first_chunks *= unit;
    lengths.period_chunks *= unit;
    lengths.warm_chunks *= unit;
    lengths.measured_chunks *= unit;
    reader->phases = ft_phases_begin(lengths, (uint64_t)FT_MIN_PHASE_CHUNKS * unit);
    reader->samples_itself = true;
}

bool ft_reader_phase_ends(struct ft_reader *reader)
{
    if (!reader->samples_itself)
        return false;
    ft_phases_pass(&reader->phases, reader->seen - reader->seen_before);
    reader->seen_before = reader->seen;
    const enum ft_mark next = ft_phases_next(&reader->phases, reader->new_code);
    if (next == reader->phases.phase)
        return false;
    ft_phases_enter(&reader->phases, next);
    reader->new_code = false;
    reader->mark = next;
    reader->flow_ended |= next == FT_MARK_COUNT;
    return true;
}

bool ft_reader_skips(const struct ft_reader *reader)
{
    return reader->samples_itself && reader->phases.phase == FT_MARK_COUNT;
}

bool ft_reader_skips_array(struct ft_reader *reader, struct ft_array *array)
{
    const bool skips = ft_reader_skips(reader) && array->was_fed;
    reader->new_code |= ft_reader_skips(reader) && !array->was_fed;
    array->was_fed = true;
    return skips;
}
