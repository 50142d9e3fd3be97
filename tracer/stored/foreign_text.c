/* Traces that are lines of text: valgrind's lackey and Dinero's din. See foreign.h. */
#define _GNU_SOURCE
#include "foreign.h"

#include <string.h>

/* The value of a hexadecimal digit plus 1, by character; 0 for what is none. */
static const uint8_t HEX[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

struct record {
    unsigned char what;
    uint64_t address;
    uint32_t size_bytes; /* 0: not told */
};

/* All that follow end at the latest at the line's newline, which is no digit and no blank. NULL: there is no number, or
 * it is too large. */
static const unsigned char *read_hex(const unsigned char *p, uint64_t *value)
{
    const unsigned char *begin = p;
    uint64_t total = 0;
    for (uint8_t digit; (digit = HEX[*p]) != 0; p++)
        total = total << 4 | (digit - 1u);
    *value = total;
    if (p - begin > 16) { /* more than 64 bits, unless they are zeros */
        for (const unsigned char *q = begin; q < p - 16; q++)
            if (*q != '0')
                return NULL;
    }
    return p == begin ? NULL : p;
}

static const unsigned char *read_decimal(const unsigned char *p, uint64_t *value)
{
    const unsigned char *begin = p;
    uint64_t total = 0;
    for (; *p >= '0' && *p <= '9' && p - begin < 10; p++)
        total = 10 * total + (uint64_t)(*p - '0');
    *value = total;
    return p == begin ? NULL : p;
}

static const unsigned char *skip_blanks(const unsigned char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static bool at_end(const unsigned char *p)
{
    return *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static bool is_possible(const struct record *record, uint64_t size_bytes)
{
    return size_bytes <= UINT16_MAX && ft_foreign_is_possible(record->address, (uint32_t)size_bytes);
}

/* "I  04222cac,3", " L 1ffeff7a8,8", " S ...", " M ..." */
static const unsigned char *read_lackey(const unsigned char *p, struct record *record)
{
    uint64_t size_bytes;
    bool fetch = p[0] == 'I' && p[1] == ' ' && p[2] == ' ';
    bool data = p[0] == ' ' && (p[1] == 'L' || p[1] == 'S' || p[1] == 'M') && p[2] == ' ';
    if (!fetch && !data)
        return NULL;
    record->what = fetch ? 'I' : p[1];
    p = read_hex(p + 3, &record->address);
    if (!p || *p != ',')
        return NULL;
    p = read_decimal(p + 1, &size_bytes);
    if (!p || !at_end(p) || !is_possible(record, size_bytes))
        return NULL;
    record->size_bytes = (uint32_t)size_bytes;
    return p;
}

static const unsigned char *skip_prefix(const unsigned char *p)
{
    return p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && HEX[p[2]] ? p + 2 : p;
}

/* "2 0", "0 7fff1000", "1 7fff1000 8": label, address and perhaps size, in hexadecimal; or with a letter for the label,
 * and then always a size. What follows is a comment; so is what stands for a size but is not one. */
static const unsigned char *read_din(const unsigned char *p, struct record *record)
{
    static const char labels[] = "01234rwimcvRWIMCV", meanings[] = "rwixfrwirffrwirff";
    uint64_t size_bytes;
    p = skip_blanks(p);
    const char *label = *p ? strchr(labels, *p) : NULL;
    if (!label || (p[1] != ' ' && p[1] != '\t'))
        return NULL;
    bool extended = *p > '9';
    record->what = (unsigned char)meanings[label - labels];
    p = read_hex(skip_prefix(skip_blanks(p + 1)), &record->address);
    if (!p || !(at_end(p) || *p == ' ' || *p == '\t') || !is_possible(record, FT_FOREIGN_MAX_ASSUMED_BYTES))
        return NULL;
    p = skip_blanks(p);
    record->size_bytes = 0;
    const unsigned char *end = read_hex(skip_prefix(p), &size_bytes);
    bool sized = end && (extended ? at_end(end) || *end == ' ' || *end == '\t' : at_end(skip_blanks(end)));
    if (sized && is_possible(record, size_bytes))
        record->size_bytes = (uint32_t)size_bytes;
    else if (extended || (sized && !size_bytes))
        return NULL;
    return p;
}

/* What valgrind itself has to say: "==4711== Command: ./program". */
static bool is_remark(const struct ft_foreign *foreign, const unsigned char *p)
{
    return foreign->format == FT_LACKEY && p[0] == '=' && p[1] == '=';
}

/* ---- what records mean ------------------------------------------------------------------------------------------ */

/* False when memory ran out. */
static bool take_lackey(struct ft_foreign *foreign, const struct record *record)
{
    switch (record->what) {
    case 'I': return ft_foreign_fetch(foreign, record->address, record->size_bytes);
    case 'L': return ft_foreign_load(foreign, record->address, record->size_bytes);
    case 'S': return ft_foreign_store(foreign, record->address, record->size_bytes);
    default:
        foreign->counts.modifies++;
        return ft_foreign_load(foreign, record->address, record->size_bytes) &&
               ft_foreign_store(foreign, record->address, record->size_bytes);
    }
}

static bool take_din(struct ft_foreign *foreign, const struct record *record)
{
    uint32_t size_bytes = record->size_bytes;
    if (record->what == 'f') {
        foreign->counts.flushes++;
        return true;
    }
    if (record->what == 'x') /* an escape record: an access of unknown kind */
        return true;
    uint64_t address = record->address;
    if (!size_bytes)
        size_bytes = ft_foreign_assume(foreign, &address);
    switch (record->what) {
    case 'i': return ft_foreign_fetch(foreign, address, size_bytes);
    case 'r': return ft_foreign_load(foreign, address, size_bytes);
    default: return ft_foreign_store(foreign, address, size_bytes);
    }
}

/* ---- lines -------------------------------------------------------------------------------------------------------- */

typedef const unsigned char *read_line(const unsigned char *line, struct record *record);
typedef bool take_record(struct ft_foreign *foreign, const struct record *record);

static inline size_t read_lines(struct ft_foreign *foreign, const unsigned char *data, size_t length, read_line *read,
                                take_record *take)
{
    /* Up to the last newline, nothing that reads a line can run past the block. */
    const unsigned char *p = data, *last = memrchr(data, '\n', length);
    while (last && p <= last) {
        struct record record;
        const unsigned char *end = read(p, &record);
        foreign->counts.records++;
        if (!end) {
            if (!at_end(p) && !is_remark(foreign, p) && !foreign->counts.skipped++)
                foreign->counts.first_skipped = foreign->counts.records;
            end = p;
        } else if (!take(foreign, &record)) {
            foreign->failed = true;
            break;
        }
        p = *end == '\n' ? end + 1 : (const unsigned char *)memchr(end, '\n', (size_t)(last - end) + 1) + 1;
    }
    return (size_t)(p - data);
}

size_t ft_foreign_lackey(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    return read_lines(foreign, data, length, read_lackey, take_lackey);
}

size_t ft_foreign_din(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    return read_lines(foreign, data, length, read_din, take_din);
}
