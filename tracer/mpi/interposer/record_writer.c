#define _GNU_SOURCE
#include "record_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "communicators.h"
#include "folding.h"
#include "record_file.h"
#include "sites.h"

enum { BUFFER_BYTES = 1 << 16, MOST_PATH = 4096 };

static struct {
    int rank, ranks;
    pid_t process;
    char path[MOST_PATH], hidden[MOST_PATH + 16];
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int64_t library_bytes, run;
} self;

static struct {
    int file, error;
    size_t used;
    char bytes[BUFFER_BYTES];
} buffer;

bool ft_writer_begin(void)
{
    const char *path = getenv("FT_MPI_RECORD");
    if (!path || !*path || strlen(path) >= MOST_PATH)
        return false;
    int length = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &self.ranks);
    PMPI_Get_library_version(self.library, &length);
    self.library_bytes = length > 0 ? (int64_t)strcspn(self.library, "\n") : 0;
    self.process = getpid();
    if (self.rank == 0 && getrandom(&self.run, sizeof self.run, 0) < 0)
        self.run = time(NULL) * INT64_C(1000003) + self.process;
    PMPI_Bcast(&self.run, sizeof self.run, MPI_BYTE, 0, MPI_COMM_WORLD);
    strcpy(self.path, path);
    snprintf(self.hidden, sizeof self.hidden, "%s.%ld", path, (long)self.process);
    return true;
}

static void flush(void)
{
    for (size_t done = 0; done < buffer.used && !buffer.error;) {
        const ssize_t written = write(buffer.file, buffer.bytes + done, buffer.used - done);
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR)
            buffer.error = errno;
    }
    buffer.used = 0;
}

static void put(const void *data, int64_t bytes)
{
    for (int64_t done = 0; done < bytes && !buffer.error;) {
        if (buffer.used == BUFFER_BYTES)
            flush();
        const int64_t room = BUFFER_BYTES - (int64_t)buffer.used, left = bytes - done;
        const int64_t part = left < room ? left : room;
        memcpy(buffer.bytes + buffer.used, (const char *)data + done, (size_t)part);
        buffer.used += (size_t)part;
        done += part;
    }
}

static void put_number(int64_t number)
{
    put(&number, sizeof number);
}

static void count_step(int64_t call, int64_t times, void *context)
{
    (void)call, (void)times;
    ++*(int64_t *)context;
}

static void put_step(int64_t call, int64_t times, void *context)
{
    (void)context;
    put(&(struct ft_step_row){call, times}, sizeof(struct ft_step_row));
}

/* Names of calls left out lie in the text behind those of sites: "MPI_Send (another thread)". */
static int64_t bytes_of(const struct ft_left_out_call *call)
{
    return (int64_t)(strlen(call->name) + (*call->why ? strlen(call->why) + 3 : 0));
}

static void put_header(bool is_complete, double processor_s, double wall_s)
{
    struct ft_record_header header = {
        .magic = FT_RECORD_MAGIC,
        .version = FT_RECORD_VERSION,
        .header_bytes = sizeof header,
        .rank = self.rank,
        .ranks = self.ranks,
        .calls = ft_calls.length,
        .slots = ft_calls.slots_length,
        .counts = ft_calls.counts_length,
        .communicators = ft_communicators.length,
        .sites = ft_sites.length,
        .left_out = ft_left_out_calls.length,
        .rising_tags = ft_calls.rising_length,
        .text_bytes = ft_sites.text_bytes,
        .library_bytes = self.library_bytes,
        .run = self.run,
        .is_complete = is_complete,
        .processor_s = processor_s,
        .wall_s = wall_s,
    };
    ft_fold_walk(count_step, &header.steps);
    for (int64_t i = 0; i < ft_communicators.length; i++)
        header.members += ft_communicators.kept[i].size;
    for (int i = 0; i < ft_left_out_calls.length; i++)
        header.text_bytes += bytes_of(&ft_left_out_calls.rows[i]);
    header.first_library = header.text_bytes;
    header.text_bytes += self.library_bytes;
    put(&header, sizeof header);
}

static void put_left_out(void)
{
    int64_t first = ft_sites.text_bytes;
    for (int i = 0; i < ft_left_out_calls.length; i++) {
        const struct ft_left_out_call *call = &ft_left_out_calls.rows[i];
        put(&(struct ft_left_out_row){first, bytes_of(call), call->times}, sizeof(struct ft_left_out_row));
        first += bytes_of(call);
    }
}

static void put_text(void)
{
    int64_t bytes = ft_sites.text_bytes + self.library_bytes;
    put(ft_sites.text, ft_sites.text_bytes);
    for (int i = 0; i < ft_left_out_calls.length; i++) {
        const struct ft_left_out_call *call = &ft_left_out_calls.rows[i];
        put(call->name, (int64_t)strlen(call->name));
        if (*call->why) {
            put(" (", 2);
            put(call->why, (int64_t)strlen(call->why));
            put(")", 1);
        }
        bytes += bytes_of(call);
    }
    put(self.library, self.library_bytes);
    put("\0\0\0\0\0\0\0", -bytes & 7);
}

static void say(const char *what)
{
    static const char head[] = "foretrace: error: the record of MPI calls cannot be written: ";
    ssize_t ignored = write(2, head, sizeof head - 1);
    ignored = write(2, what, strlen(what));
    ignored = write(2, "\n", 1);
    (void)ignored;
}

void ft_writer_write(bool is_complete, double processor_s, double wall_s)
{
    if (getpid() != self.process) /* a fork */
        return;
    buffer.error = 0;
    buffer.file = open(self.hidden, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (buffer.file < 0) {
        say(strerror(errno));
        return;
    }
    put_header(is_complete, processor_s, wall_s);
    put(ft_calls.rows, ft_calls.length * (int64_t)sizeof *ft_calls.rows);
    ft_fold_walk(put_step, NULL);
    put(ft_calls.slots, ft_calls.slots_length * 8);
    put(ft_calls.counts, ft_calls.counts_length * 8);
    for (int64_t i = 0; i < ft_communicators.length; i++)
        put_number(ft_communicators.kept[i].size);
    for (int64_t i = 0; i < ft_communicators.length; i++)
        for (int32_t j = 0; j < ft_communicators.kept[i].size; j++)
            put_number(ft_communicators.kept[i].members[j]);
    put(ft_sites.rows, ft_sites.length * (int64_t)sizeof *ft_sites.rows);
    put_left_out();
    put(ft_calls.rising, ft_calls.rising_length * (int64_t)sizeof *ft_calls.rising);
    put_text();
    flush();
    if (close(buffer.file) && !buffer.error)
        buffer.error = errno;
    if (!buffer.error && link(self.hidden, self.path))
        buffer.error = errno;
    unlink(self.hidden);
    if (buffer.error)
        say(buffer.error == EEXIST ? "that of an earlier process of this rank is there" : strerror(buffer.error));
}
