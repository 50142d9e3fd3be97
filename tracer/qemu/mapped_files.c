/* See mapped_files.h.
 *
 * Invariants: `files` is only touched under `files_lock`, which a fork takes, so that no child finds it taken. No file
 * stays open.
 */
#define _GNU_SOURCE
#include "mapped_files.h"

#include "tracer/transport/writer.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_FILES 1024u
#define MAX_FILE_BYTES (UINT64_C(64) << 20)
#define MAX_COPIED_BYTES (UINT64_C(256) << 20)
#define PAGE_BYTES UINT64_C(4096)

static struct numbers {
    int64_t unlink, unlinkat, rename, renameat, renameat2;
} numbers;

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file {
    dev_t device;
    ino_t inode;
    bool is_copied;
    char path[256]; /* as it was mapped; of a longer one the name is not kept, and no copy made */
} files[MAX_FILES];
static uint32_t num_files;
static uint64_t copied_bytes;

static void lock(void)
{
    pthread_mutex_lock(&files_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&files_lock);
}

void ft_mapped_files_begin(const char *target)
{
    if (strcmp(target, "x86_64") == 0)
        numbers = (struct numbers){87, 263, 82, 264, 316};
    else
        numbers = (struct numbers){-1, 35, -1, strcmp(target, "aarch64") == 0 ? 38 : -1, 276};
    pthread_atfork(lock, unlock, unlock);
}

/* ---- copies -------------------------------------------------------------------------------------------------------- */

struct copy {
    const struct file *file;
    int fd;
    uint64_t bytes;
};

static void fill_file_entry(void *entry, uint32_t number, void *context)
{
    struct ft_side_file *side = entry;
    const struct copy *copy = context;
    const size_t path_bytes = strlen(copy->file->path);
    char *content = (char *)(side + 1) + path_bytes;
    uint64_t done = 0;
    ssize_t got = 1;
    (void)number;
    memcpy(side + 1, copy->file->path, path_bytes);
    while (done < copy->bytes && got > 0)
        if ((got = pread(copy->fd, content + done, copy->bytes - done, (off_t)done)) > 0)
            done += (uint64_t)got;
    side->entry.kind = FT_SIDE_FILE;
    side->inode = copy->file->inode;
    side->file_bytes = done;
    side->path_bytes = (uint32_t)path_bytes;
}

/* Copies an ELF file, if there is room; what is not copied has no names, which the reader of the trace says. */
static void copy_file(struct file *file, int fd)
{
    struct stat status;
    char magic[SELFMAG];
    if (file->is_copied || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_dev != file->device ||
        status.st_ino != file->inode || pread(fd, magic, SELFMAG, 0) != SELFMAG || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return;
    struct copy copy = {file, fd, (uint64_t)status.st_size};
    const struct ft_header *header = ft_writer_header();
    const uint64_t room = header->side_capacity_bytes - atomic_load(&header->side_used_bytes);
    if (copy.bytes > MAX_FILE_BYTES || copy.bytes > MAX_COPIED_BYTES - copied_bytes || copy.bytes > room / 2)
        return;
    file->is_copied = true;
    copied_bytes += copy.bytes;
    ft_writer_append(sizeof(struct ft_side_file) + strlen(file->path) + copy.bytes, NULL, fill_file_entry, &copy);
}

static struct file *find(const struct stat *status)
{
    for (uint32_t i = 0; i < num_files; i++)
        if (files[i].inode == status->st_ino && files[i].device == status->st_dev)
            return &files[i];
    return NULL;
}

static struct file *find_or_add(const struct stat *status, const char *path)
{
    struct file *file = find(status);
    if (file || num_files == MAX_FILES || !S_ISREG(status->st_mode) || strlen(path) >= sizeof file->path)
        return file;
    file = &files[num_files++];
    *file = (struct file){.device = status->st_dev, .inode = status->st_ino};
    strcpy(file->path, path);
    return file;
}

/* ---- what is mapped ------------------------------------------------------------------------------------------------ */

void ft_mapped_files_first(const char *maps, size_t length)
{
    const char *end = maps + length, *next;
    lock();
    for (const char *line = maps; line < end && (next = memchr(line, '\n', (size_t)(end - line))); line = next + 1) {
        const char *name = memchr(line, '/', (size_t)(next - line));
        char path[sizeof files->path];
        struct stat status;
        if (!name || (size_t)(next - name) >= sizeof path)
            continue;
        memcpy(path, name, (size_t)(next - name));
        path[next - name] = 0;
        if (stat(path, &status) == 0)
            find_or_add(&status, path);
    }
    unlock();
}

void ft_mapped_files_mapped(int fd)
{
    char link[40], path[PATH_MAX];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || fstat(fd, &status) != 0)
        return;
    path[length] = 0;
    lock();
    struct file *file = find_or_add(&status, path);
    if (file && status.st_nlink == 0)
        copy_file(file, fd);
    unlock();
}

/* ---- names that are taken away ------------------------------------------------------------------------------------- */

/* Reads a path of the program's, page by page, as the next page may not be there. */
static bool read_path(uint64_t address, char path[PATH_MAX])
{
    for (size_t length = 0; address && length < PATH_MAX;) {
        const uint64_t from = address + length + ft_writer_header()->guest_base, left = PAGE_BYTES - from % PAGE_BYTES;
        const size_t step = left < PATH_MAX - length ? left : PATH_MAX - length;
        const struct iovec own = {path + length, step}, there = {(void *)(uintptr_t)from, step};
        if (process_vm_readv(getpid(), &own, 1, &there, 1, 0) != (ssize_t)step)
            return false;
        if (memchr(path + length, 0, step))
            return true;
        length += step;
    }
    return false;
}

/* The file of this name loses it. */
static void loses_name(int folder, uint64_t address)
{
    char path[PATH_MAX];
    struct stat status;
    if (!read_path(address, path) || fstatat(folder, path, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode))
        return;
    lock();
    struct file *file = find(&status);
    if (file && !file->is_copied) {
        const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0) {
            copy_file(file, fd);
            close(fd);
        }
    }
    unlock();
}

void ft_mapped_files_call(int64_t number, const uint64_t arguments[6])
{
    if (number < 0)
        return;
    if (number == numbers.unlink) {
        loses_name(AT_FDCWD, arguments[0]);
    } else if (number == numbers.unlinkat) {
        loses_name((int)arguments[0], arguments[1]);
    } else if (number == numbers.rename) {
        loses_name(AT_FDCWD, arguments[0]);
        loses_name(AT_FDCWD, arguments[1]);
    } else if (number == numbers.renameat || number == numbers.renameat2) {
        loses_name((int)arguments[0], arguments[1]);
        loses_name((int)arguments[2], arguments[3]);
    }
}
