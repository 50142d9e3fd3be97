/* Which object each address belongs to. See ranges.h. */
#include "ranges.h"

#include "pairs.h"

#include <stdlib.h>
#include <string.h>

/* Where a range is, or would be. */
struct spot {
    uint32_t piece, index;
};

/* The first range that ends behind an address. */
static struct spot spot_of(const struct ft_flow_ranges *r, uint64_t address)
{
    uint32_t low = 0, high = r->num_pieces; /* the last piece that begins at the address or before, or the first one */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (r->pieces[middle].first <= address)
            low = middle;
        else
            high = middle;
    }
    if (r->num_pieces == 0)
        return (struct spot){0, 0};
    const struct ft_flow_piece *piece = &r->pieces[low];
    uint32_t from = 0, to = piece->length;
    while (from < to) {
        const uint32_t middle = (from + to) / 2;
        if (piece->ranges[middle].end <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from < piece->length ? (struct spot){low, from} : (struct spot){low + 1, 0};
}

static struct ft_flow_range *range_at(const struct ft_flow_ranges *r, struct spot spot)
{
    return spot.piece < r->num_pieces ? &r->pieces[spot.piece].ranges[spot.index] : NULL;
}

const struct ft_flow_range *ft_flow_ranges_at(const struct ft_flow_ranges *r, uint64_t address)
{
    return range_at(r, spot_of(r, address));
}

static bool add_piece(struct ft_flow_ranges *r, uint32_t number)
{
    if (!ft_reserve(&r->pieces, &r->capacity, r->num_pieces, sizeof *r->pieces))
        return false;
    struct ft_flow_range *ranges = malloc(FT_FLOW_PIECE * sizeof *ranges);
    if (!ranges)
        return false;
    memmove(r->pieces + number + 1, r->pieces + number, (r->num_pieces - number) * sizeof *r->pieces);
    r->pieces[number] = (struct ft_flow_piece){.ranges = ranges};
    r->num_pieces++;
    return true;
}

/* Adds a range before the one at a spot. */
static bool insert(struct ft_flow_ranges *r, struct spot spot, struct ft_flow_range range)
{
    if (spot.piece == r->num_pieces && spot.piece > 0) /* behind the last one */
        spot = (struct spot){spot.piece - 1, r->pieces[spot.piece - 1].length};
    if (r->num_pieces == 0 && !add_piece(r, 0))
        return false;
    if (r->pieces[spot.piece].length == FT_FLOW_PIECE) {
        if (!add_piece(r, spot.piece + 1))
            return false;
        struct ft_flow_piece *full = &r->pieces[spot.piece], *other = full + 1;
        full->length = FT_FLOW_PIECE / 2;
        other->length = FT_FLOW_PIECE - full->length;
        memcpy(other->ranges, full->ranges + full->length, other->length * sizeof *other->ranges);
        other->first = other->ranges->first;
        if (spot.index > full->length)
            spot = (struct spot){spot.piece + 1, spot.index - full->length};
    }
    struct ft_flow_piece *piece = &r->pieces[spot.piece];
    memmove(piece->ranges + spot.index + 1, piece->ranges + spot.index,
            (piece->length - spot.index) * sizeof *piece->ranges);
    piece->ranges[spot.index] = range;
    piece->first = piece->ranges->first;
    piece->length++;
    r->num_ranges++;
    return true;
}

static void erase(struct ft_flow_ranges *r, struct spot spot)
{
    struct ft_flow_piece *piece = &r->pieces[spot.piece];
    piece->length--;
    r->num_ranges--;
    memmove(piece->ranges + spot.index, piece->ranges + spot.index + 1,
            (piece->length - spot.index) * sizeof *piece->ranges);
    piece->first = piece->ranges->first;
    if (piece->length)
        return;
    free(piece->ranges);
    r->num_pieces--;
    memmove(piece, piece + 1, (r->num_pieces - spot.piece) * sizeof *piece);
}

/* Has a range begin at an address that lies inside of one. */
static bool split(struct ft_flow_ranges *r, uint64_t address)
{
    const struct spot spot = spot_of(r, address);
    struct ft_flow_range *range = range_at(r, spot);
    if (!range || range->first >= address)
        return true;
    const struct ft_flow_range left = {range->first, address, range->object};
    range->first = address;
    return insert(r, spot, left);
}

bool ft_flow_ranges_set(struct ft_flow_ranges *r, uint64_t first, uint64_t end, uint32_t object)
{
    const struct ft_flow_range range = {first, end, object};
    struct spot spot = spot_of(r, first);
    struct ft_flow_range *there = range_at(r, spot);
    if (first >= end)
        return true;
    if (there && there->first == first && there->end == end) {
        there->object = object;
        return true;
    }
    if (there && there->first < end) {
        if (!split(r, first) || !split(r, end))
            return false;
        spot = spot_of(r, first);
        while ((there = range_at(r, spot)) && there->first < end) {
            erase(r, spot);
            spot = spot_of(r, first);
        }
    }
    return r->num_ranges >= FT_FLOW_MAX_RANGES || insert(r, spot, range);
}

void ft_flow_ranges_free(struct ft_flow_ranges *r)
{
    for (uint32_t i = 0; i < r->num_pieces; i++)
        free(r->pieces[i].ranges);
    free(r->pieces);
}
