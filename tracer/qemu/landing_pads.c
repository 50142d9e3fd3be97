/* See landing_pads.h. Sources: Linux Standard Base Core 5.0, sections 10.5 (DWARF pointer encodings) and 10.6
 * (.eh_frame, .eh_frame_hdr); of the language-specific data area, which the Itanium C++ ABI leaves to implementations,
 * GCC's libstdc++-v3/libsupc++/eh_personality.cc (parse_lsda_header).
 *
 * The tables are read in the program's memory, by way of /proc/self/mem, which refuses what is not mapped: they may be
 * damaged, and their file may be gone. `images` are what is mapped from ELF files, each with its sorted table of
 * functions once that is needed; `functions` holds the call sites of some functions that were asked for, by a hash of
 * where they begin.
 */
#define _GNU_SOURCE
#include "landing_pads.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TABLE_BYTES (UINT64_C(64) << 20)
#define MAX_CALL_SITES (1u << 20) /* of a function */
#define MAX_SEGMENTS 64u
#define MAX_SECTIONS 256u
#define NUM_FUNCTIONS 256u /* a power of two */
#define OMITTED 0xff

struct entry { /* as .eh_frame_hdr has them: both relative to one place */
    int32_t function, description;
};

struct image {
    uint64_t base; /* where the file's first byte is mapped */
    unsigned long long device, inode;
    char *path;
    uint64_t tables;       /* what entries are relative to */
    struct entry *entries; /* by function */
    uint64_t num_entries;
    bool is_read, is_mapped;
};

struct code {
    uint64_t first, end;
    size_t image;
};

struct call_site {
    uint64_t first, end, pad;
};

struct function {
    uint64_t first, end; /* end 0: free */
    struct call_site *sites;
    size_t num_sites;
};

static struct image *images;
static size_t num_images;
static struct code *codes;
static size_t num_codes;
static struct function functions[NUM_FUNCTIONS];

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct bytes {
    int memory;
    uint64_t at;
    bool failed;
    uint64_t begin;
    size_t length;
    unsigned char buffer[1024];
};

static unsigned char next_byte(struct bytes *from)
{
    if (from->at - from->begin >= from->length) {
        const ssize_t got = from->failed ? -1 : pread(from->memory, from->buffer, sizeof from->buffer, (off_t)from->at);
        from->begin = from->at;
        from->length = got > 0 ? (size_t)got : 0;
        if (got <= 0) {
            from->failed = true;
            return 0;
        }
    }
    return from->buffer[from->at++ - from->begin];
}

static uint64_t next_number(struct bytes *from, unsigned bytes)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)next_byte(from) << 8 * i;
    return number;
}

static uint64_t next_leb128(struct bytes *from, bool is_signed)
{
    uint64_t number = 0;
    unsigned shift = 0;
    unsigned char byte;
    do {
        byte = next_byte(from);
        number |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        shift += 7;
    } while (byte & 0x80);
    return is_signed && byte & 0x40 && shift < 64 ? number | ~UINT64_C(0) << shift : number;
}

/* A pointer as it is written, before anything is added to it. */
static uint64_t next_encoded(struct bytes *from, unsigned char encoding)
{
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c: return next_number(from, 8);
    case 0x01: return next_leb128(from, false);
    case 0x09: return next_leb128(from, true);
    case 0x02: return next_number(from, 2);
    case 0x0a: return (uint64_t)(int64_t)(int16_t)next_number(from, 2);
    case 0x03: return next_number(from, 4);
    case 0x0b: return (uint64_t)(int64_t)(int32_t)next_number(from, 4);
    default: from->failed = true; return 0;
    }
}

/* A pointer, as an address of this process; 0 for none. */
static uint64_t next_pointer(struct bytes *from, unsigned char encoding, uint64_t guest_base)
{
    const uint64_t at = from->at, written = next_encoded(from, encoding);
    if (written == 0)
        return 0;
    switch (encoding & 0xf0) {
    case 0x00: return written + guest_base;
    case 0x10: return written + at;
    default: from->failed = true; return 0; /* of what no compiler writes here */
    }
}

static bool read_at(int memory, uint64_t address, void *to, size_t bytes)
{
    size_t got = 0;
    ssize_t more = 1;
    while (got < bytes && more > 0)
        if ((more = pread(memory, (char *)to + got, bytes - got, (off_t)(address + got))) > 0)
            got += (size_t)more;
    return got == bytes;
}

/* ---- what is mapped ------------------------------------------------------------------------------------------------ */

static void forget_functions(void)
{
    for (size_t i = 0; i < NUM_FUNCTIONS; i++)
        free(functions[i].sites);
    memset(functions, 0, sizeof functions);
}

/* The number of an image, which is added if it is new; SIZE_MAX without memory. */
static size_t image_at(uint64_t base, unsigned long long device, unsigned long long inode, const char *path,
                       size_t path_bytes)
{
    for (size_t i = 0; i < num_images; i++)
        if (images[i].base == base && images[i].device == device && images[i].inode == inode) {
            images[i].is_mapped = true;
            return i;
        }
    struct image *more = realloc(images, (num_images + 1) * sizeof *images);
    if (!more)
        return SIZE_MAX;
    images = more;
    images[num_images] = (struct image){
        .base = base, .device = device, .inode = inode, .is_mapped = true, .path = strndup(path, path_bytes)};
    return num_images++;
}

static void add_code(uint64_t first, uint64_t end, size_t image)
{
    struct code *more = realloc(codes, (num_codes + 1) * sizeof *codes);
    if (!more)
        return;
    codes = more;
    codes[num_codes++] = (struct code){first, end, image};
}

/* Gives up images that are gone. Numbers of images change. */
static void drop_unmapped(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < num_images; i++)
        if (images[i].is_mapped) {
            images[i].is_mapped = false;
            images[kept++] = images[i];
        } else {
            free(images[i].entries);
            free(images[i].path);
        }
    num_images = kept;
}

void ft_landing_pads_mapped(const char *maps, size_t bytes)
{
    size_t image = SIZE_MAX;
    unsigned long long image_device = 0, image_inode = 0;
    char line[128];  /* the beginning of one: all but the path */
    drop_unmapped(); /* those that the map before the last one had, and that one not */
    forget_functions();
    num_codes = 0;
    for (const char *at = maps, *end; at < maps + bytes; at = end + 1) {
        end = memchr(at, '\n', (size_t)(maps + bytes - at));
        end = end ? end : maps + bytes;
        const size_t length = (size_t)(end - at) < sizeof line - 1 ? (size_t)(end - at) : sizeof line - 1;
        memcpy(line, at, length);
        line[length] = 0;
        unsigned long long first, last, offset, major, minor, inode;
        if (sscanf(line, "%llx-%llx %*s %llx %llx:%llx %llu", &first, &last, &offset, &major, &minor, &inode) < 6)
            continue;
        const unsigned long long device = major << 32 | minor;
        const char *path = memchr(at, '/', (size_t)(end - at));
        if (inode && offset == 0 && path) {
            image = image_at(first, device, inode, path, (size_t)(end - path));
            image_device = device;
            image_inode = inode;
        }
        if (image != SIZE_MAX && inode && device == image_device && inode == image_inode)
            add_code(first, last, image);
    }
}

/* Encodings that a common entry gives for its functions' entries. OMITTED: they have no data of their language. */
struct encodings {
    unsigned char pointer, language;
    bool has_length;
};

static struct encodings read_encodings(int memory, uint64_t at)
{
    struct bytes from = {.memory = memory, .at = at};
    struct encodings found = {0, OMITTED, false};
    char letters[16] = {0};
    const uint64_t length = next_number(&from, 4), id = next_number(&from, 4);
    const unsigned char version = next_byte(&from);
    if (length == 0 || length == UINT32_MAX || id != 0)
        return found;
    size_t n = 0;
    for (char letter; (letter = (char)next_byte(&from)) != 0 && !from.failed; n++)
        if (n < sizeof letters - 1)
            letters[n] = letter;
    next_leb128(&from, false); /* factors of alignment */
    next_leb128(&from, true);
    if (version == 1)
        next_byte(&from);
    else
        next_leb128(&from, false); /* the return address's register */
    found.has_length = letters[0] == 'z';
    if (found.has_length)
        next_leb128(&from, false);
    for (const char *letter = letters + found.has_length; *letter && found.has_length; letter++) {
        if (*letter == 'L')
            found.language = next_byte(&from);
        else if (*letter == 'R')
            found.pointer = next_byte(&from);
        else if (*letter == 'P')
            next_encoded(&from, next_byte(&from));
    }
    return from.failed ? (struct encodings){0, OMITTED, false} : found;
}

static int compare(const void *one, const void *other)
{
    const struct entry *a = one, *b = other;
    return (a->function > b->function) - (a->function < b->function);
}

/* Makes the table from .eh_frame itself. */
static void make_table(struct image *image, int memory, uint64_t frames, uint64_t frames_bytes, uint64_t guest_base)
{
    uint64_t room = 0, known_at = 0;
    struct encodings known = {0};
    image->tables = frames;
    for (uint64_t at = frames; at < frames + frames_bytes;) {
        struct bytes from = {.memory = memory, .at = at};
        const uint64_t length = next_number(&from, 4), common_at = from.at, distance = next_number(&from, 4);
        if (length == 0 || length == UINT32_MAX || from.failed)
            break;
        const uint64_t common = common_at - distance;
        if (distance && common != known_at) {
            known = read_encodings(memory, common);
            known_at = common;
        }
        const uint64_t function = distance ? next_pointer(&from, known.pointer, guest_base) : 0;
        if (function && image->num_entries == room) {
            room = room ? 2 * room : 1024;
            struct entry *more =
                room * sizeof *more <= MAX_TABLE_BYTES ? realloc(image->entries, room * sizeof *more) : NULL;
            if (!more)
                break;
            image->entries = more;
        }
        if (function)
            image->entries[image->num_entries++] = (struct entry){(int32_t)(function - frames), (int32_t)(at - frames)};
        at = common_at + length;
    }
    if (image->num_entries)
        qsort(image->entries, image->num_entries, sizeof *image->entries, compare);
}

/* The place of .eh_frame by the file: link-time address and length; that is not told by what is mapped of it. */
static bool find_frames(const char *path, uint64_t *address, uint64_t *bytes)
{
    Elf64_Ehdr elf;
    Elf64_Shdr sections[MAX_SECTIONS], names;
    bool found = false;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && read_at(file, 0, &elf, sizeof elf) && elf.e_shentsize == sizeof *sections &&
        elf.e_shnum <= MAX_SECTIONS && elf.e_shstrndx < elf.e_shnum &&
        read_at(file, elf.e_shoff, sections, elf.e_shnum * sizeof *sections)) {
        names = sections[elf.e_shstrndx];
        for (uint32_t i = 0; i < elf.e_shnum && !found; i++) {
            char name[sizeof ".eh_frame"];
            found = read_at(file, names.sh_offset + sections[i].sh_name, name, sizeof name) &&
                    memcmp(name, ".eh_frame", sizeof name) == 0;
            *address = sections[i].sh_addr;
            *bytes = sections[i].sh_size;
        }
    }
    if (file >= 0)
        close(file);
    return found;
}

/* Reads an image's table of functions. */
static void read_image(struct image *image, int memory, uint64_t guest_base)
{
    Elf64_Ehdr elf;
    Elf64_Phdr segments[MAX_SEGMENTS];
    unsigned char form[12];
    image->is_read = true;
    if (!read_at(memory, image->base, &elf, sizeof elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof *segments)
        return;
    const uint32_t number = elf.e_phnum < MAX_SEGMENTS ? elf.e_phnum : MAX_SEGMENTS;
    if (!read_at(memory, image->base + elf.e_phoff, segments, number * sizeof *segments))
        return;
    const Elf64_Phdr *header = NULL, *first = NULL;
    for (uint32_t i = 0; i < number; i++) {
        if (segments[i].p_type == PT_GNU_EH_FRAME)
            header = &segments[i];
        if (segments[i].p_type == PT_LOAD && !first)
            first = &segments[i];
    }
    if (!first)
        return;
    const uint64_t bias = image->base - (first->p_vaddr - first->p_offset);
    uint64_t frames, frames_bytes;
    /* version 1; pcrel|sdata4, udata4, datarel|sdata4: as GNU ld, gold and lld write it */
    if (!header || !read_at(memory, bias + header->p_vaddr, form, sizeof form) ||
        memcmp(form, "\x01\x1b\x03\x3b", 4) != 0) {
        if (image->path && find_frames(image->path, &frames, &frames_bytes))
            make_table(image, memory, bias + frames, frames_bytes, guest_base);
        return;
    }
    uint32_t entries;
    memcpy(&entries, form + 8, sizeof entries);
    const uint64_t table_bytes = entries * (uint64_t)sizeof(struct entry);
    if (table_bytes > MAX_TABLE_BYTES || table_bytes > header->p_memsz || !(image->entries = malloc(table_bytes + 1)))
        return;
    image->tables = bias + header->p_vaddr;
    if (read_at(memory, image->tables + sizeof form, image->entries, table_bytes))
        image->num_entries = entries;
}

/* ---- functions ----------------------------------------------------------------------------------------------------- */

static bool add_site(struct function *function, size_t *room, struct call_site site)
{
    if (function->num_sites == *room) {
        const size_t more = *room ? 2 * *room : 16;
        struct call_site *sites = more <= MAX_CALL_SITES ? realloc(function->sites, more * sizeof *sites) : NULL;
        if (!sites)
            return false;
        function->sites = sites;
        *room = more;
    }
    function->sites[function->num_sites++] = site;
    return true;
}

/* Reads the call sites that have landing pads, in the order of their addresses. */
static void read_sites(struct function *function, int memory, uint64_t at, uint64_t guest_base)
{
    struct bytes from = {.memory = memory, .at = at};
    size_t room = 0;
    uint64_t pads = function->first;
    const unsigned char pads_encoding = next_byte(&from);
    if (pads_encoding != OMITTED)
        pads = next_pointer(&from, pads_encoding, guest_base);
    if (next_byte(&from) != OMITTED) /* the types that are caught */
        next_leb128(&from, false);
    const unsigned char encoding = next_byte(&from);
    const uint64_t length = next_leb128(&from, false), end = from.at + length;
    if (length > MAX_TABLE_BYTES)
        return;
    while (from.at < end && !from.failed) {
        const uint64_t first = function->first + next_encoded(&from, encoding);
        const uint64_t last = first + next_encoded(&from, encoding);
        const uint64_t pad = next_encoded(&from, encoding);
        next_leb128(&from, false); /* what it does there */
        if (pad && !from.failed && !add_site(function, &room, (struct call_site){first, last, pads + pad}))
            return;
    }
}

/* The entry of the table for an address; NULL if there is none. */
static const struct entry *entry_for(const struct image *image, uint64_t address)
{
    uint64_t low = 0, high = image->num_entries;
    const int64_t relative = (int64_t)(address - image->tables);
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (image->entries[middle].function <= relative)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &image->entries[low - 1] : NULL;
}

static void read_function(struct function *function, int memory, uint64_t at, uint64_t guest_base)
{
    struct bytes from = {.memory = memory, .at = at};
    const uint64_t length = next_number(&from, 4), common_at = from.at, distance = next_number(&from, 4);
    if (length == 0 || length == UINT32_MAX || distance == 0)
        return;
    const struct encodings encodings = read_encodings(memory, common_at - distance);
    if (!encodings.has_length)
        return;
    function->first = next_pointer(&from, encodings.pointer, guest_base);
    function->end = function->first + next_encoded(&from, encodings.pointer & 0x0f);
    next_leb128(&from, false); /* the length of what follows */
    const uint64_t language = encodings.language == OMITTED ? 0 : next_pointer(&from, encodings.language, guest_base);
    if (language && !from.failed)
        read_sites(function, memory, language, guest_base);
}

static struct image *image_of(uint64_t address)
{
    size_t low = 0, high = num_codes; /* maps are sorted */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (codes[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < num_codes && codes[low].first <= address ? &images[codes[low].image] : NULL;
}

/* The function that holds an address of this process; NULL if the tables have none. */
static const struct function *function_of(uint64_t address, uint64_t guest_base)
{
    struct image *image = image_of(address);
    if (!image || (image->is_read && !image->num_entries))
        return NULL;
    int memory = -1;
    if (!image->is_read) {
        memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        read_image(image, memory, guest_base);
    }
    const struct entry *entry = entry_for(image, address);
    struct function *function = NULL;
    if (entry) {
        const uint64_t first = image->tables + (uint64_t)(int64_t)entry->function;
        function = &functions[(first >> 4 ^ first >> 12) % NUM_FUNCTIONS];
        if (function->first != first) {
            memory = memory < 0 ? open("/proc/self/mem", O_RDONLY | O_CLOEXEC) : memory;
            free(function->sites);
            *function = (struct function){0};
            read_function(function, memory, image->tables + (uint64_t)(int64_t)entry->description, guest_base);
            function->first = first;
        }
    }
    if (memory >= 0)
        close(memory);
    return function && address < function->end ? function : NULL;
}

uint64_t ft_landing_pad(uint64_t behind, uint64_t guest_base)
{
    const uint64_t address = behind + guest_base - 1;
    const struct function *function = function_of(address, guest_base);
    size_t low = 0, high = function ? function->num_sites : 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (function->sites[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = function && low < function->num_sites && function->sites[low].first <= address;
    return found ? function->sites[low].pad - guest_base : 0;
}
