/* Names in symbol tables. See module_symbols.h. The structures are those of elf(5); files are hostile until checked. */
#define _GNU_SOURCE
#include "module_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TABLE_BYTES (UINT64_C(256) << 20)
#define PAGE_BYTES UINT64_C(4096)

/* A piece of a file, with a 0 behind it. NULL if it is not all there. */
static void *piece_of(int fd, uint64_t offset, uint64_t bytes)
{
    if (bytes > MAX_TABLE_BYTES || offset > INT64_MAX - bytes)
        return NULL;
    char *piece = malloc(bytes + 1);
    uint64_t got = 0;
    ssize_t more = 1;
    while (piece && got < bytes && more > 0)
        if ((more = pread(fd, piece + got, bytes - got, (off_t)(offset + got))) > 0)
            got += (uint64_t)more;
    if (!piece || got < bytes) {
        free(piece);
        return NULL;
    }
    piece[bytes] = 0;
    return piece;
}

static bool read_header(int fd, Elf64_Ehdr *header)
{
    return pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header &&
           memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == ELFDATA2LSB;
}

/* Where link-time address 0 lies if the file's byte `offset` is mapped to `first`. */
static bool find_base(const char *path, uint64_t first, uint64_t offset, uint64_t *base)
{
    Elf64_Ehdr header;
    bool found = false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read_header(fd, &header) && header.e_phentsize == sizeof(Elf64_Phdr)) {
        Elf64_Phdr *segments = piece_of(fd, header.e_phoff, (uint64_t)header.e_phnum * sizeof *segments);
        for (uint32_t i = 0; segments && i < header.e_phnum && !found; i++) {
            const uint64_t begin = segments[i].p_offset & ~(PAGE_BYTES - 1);
            found =
                segments[i].p_type == PT_LOAD && offset >= begin && offset - begin < segments[i].p_filesz + PAGE_BYTES;
            *base = first - offset + segments[i].p_offset - segments[i].p_vaddr;
        }
        free(segments);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

bool ft_mapping_of(uint64_t address, struct ft_mapping *mapping)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (maps && !found && getline(&line, &room, maps) > 0) {
        unsigned long long first, end, offset;
        int path_at = 0;
        if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %n", &first, &end, &offset, &path_at) < 3 || address < first ||
            address >= end)
            continue;
        found = true;
        *mapping = (struct ft_mapping){.first = first, .end = end};
        const size_t length = path_at ? strcspn(line + path_at, "\n") : 0;
        if (length && length < sizeof mapping->path && line[path_at] == '/') {
            memcpy(mapping->path, line + path_at, length);
            if (!find_base(mapping->path, first, offset, &mapping->base))
                mapping->path[0] = 0;
        }
    }
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

static void take_table(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings, uint64_t base,
                       void (*take)(const struct ft_symbol *symbol, void *context), void *context)
{
    Elf64_Sym *symbols = piece_of(fd, table->sh_offset, table->sh_size);
    char *names = piece_of(fd, strings->sh_offset, strings->sh_size);
    const uint64_t number = symbols && names ? table->sh_size / sizeof *symbols : 0;
    for (uint64_t i = 0; i < number; i++) {
        const Elf64_Sym *one = &symbols[i];
        const unsigned int type = ELF64_ST_TYPE(one->st_info);
        if (one->st_shndx == SHN_UNDEF || !one->st_value || one->st_name >= strings->sh_size ||
            (type != STT_FUNC && type != STT_OBJECT))
            continue;
        const struct ft_symbol symbol = {names + one->st_name, base + one->st_value, one->st_size, type == STT_FUNC};
        take(&symbol, context);
    }
    free(symbols);
    free(names);
}

void ft_symbols_of(const struct ft_mapping *mapping, void (*take)(const struct ft_symbol *symbol, void *context),
                   void *context)
{
    Elf64_Ehdr header;
    const int fd = mapping->path[0] ? open(mapping->path, O_RDONLY | O_CLOEXEC) : -1;
    Elf64_Shdr *sections = NULL;
    if (fd >= 0 && read_header(fd, &header) && header.e_shentsize == sizeof *sections)
        sections = piece_of(fd, header.e_shoff, (uint64_t)header.e_shnum * sizeof *sections);
    const uint32_t wanted[] = {SHT_SYMTAB, SHT_DYNSYM};
    bool taken = false; /* the first one has all that the second has */
    for (uint32_t kind = 0; kind < 2 && !taken; kind++)
        for (uint32_t i = 0; sections && i < header.e_shnum; i++)
            if (sections[i].sh_type == wanted[kind] && sections[i].sh_link < header.e_shnum) {
                take_table(fd, &sections[i], &sections[sections[i].sh_link], mapping->base, take, context);
                taken = true;
            }
    free(sections);
    if (fd >= 0)
        close(fd);
}
