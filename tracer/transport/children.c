/* See children.h. What is read from the guest's memory is read through /proc/self/mem: a bad pointer gives an error, as
 * it does in the system call. Whatever is not understood is left to the engine, which then runs the new program
 * untraced.
 */
#define _GNU_SOURCE
#include "children.h"

#include "tracer/transport/futex.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 50000000L
#define MAX_ARGUMENTS 65536u
#define MAX_ARGUMENT_BYTES (4u << 20)
#define MAX_INTERPRETERS 4 /* of interpreters, as Linux has it (BINPRM_MAX_RECURSION, fs/exec.c) */
#define SCRIPT_LINE_BYTES 256 /* BINPRM_BUF_SIZE, linux/binfmts.h */

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static bool is_zombie(uint32_t pid)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return false;
    text[got] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

static bool lives(uint32_t pid)
{
    return (kill((pid_t)pid, 0) == 0 || errno == EPERM) && !is_zombie(pid);
}

bool ft_reader_lives(const struct ft_header *header)
{
    uint32_t pid = atomic_load(&header->reader_pid);
    if (pid == 0 || getppid() == (pid_t)pid)
        return pid != 0;
    return atomic_load(&header->request.follow) && lives(pid);
}

/* Whether somebody will answer, whose child we need not be. */
static bool is_read(const struct ft_header *header)
{
    const uint32_t pid = atomic_load(&header->reader_pid);
    return pid != 0 && atomic_load(&header->request.follow) && (getppid() == (pid_t)pid || lives(pid));
}

int ft_children_open(uint32_t reader_pid, uint32_t fd)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", reader_pid, fd);
    return open(path, O_RDWR); /* the engine takes it along */
}

/* Waits for its turn: many children of one process may ask at the same time, and one may die while it does. They sleep:
 * polling, they would take the processors from whoever answers. */
static bool take_turn(struct ft_header *header, uint32_t pid)
{
    const struct timespec timeout = {0, WAIT_NS};
    for (;;) {
        uint32_t nobody = 0, other;
        if (atomic_compare_exchange_strong(&header->request.pid, &nobody, pid))
            return true;
        other = nobody;
        if (!lives(other) && atomic_compare_exchange_strong(&header->request.pid, &other, pid))
            return true;
        if (!is_read(header))
            return false;
        ft_futex_wait(&header->request.pid, other, &timeout);
    }
}

/* An argument vector being put together. Its strings lie one after the other in `text`. */
struct arguments {
    char **pointers;
    char *text;
    size_t count, used;
};

/* For the reader to show: the program and its arguments, each with a NUL after it, as far as they fit. */
static void tell_command(struct ft_request *request, const char *program, const struct arguments *arguments)
{
    size_t used = 0;
    for (size_t i = 0; arguments && i < arguments->count; i++) {
        const char *word = i ? arguments->pointers[i] : program;
        size_t length = strlen(word) + 1;
        if (length > sizeof request->command - used)
            break;
        memcpy(request->command + used, word, length);
        used += length;
    }
    request->command_bytes = (uint32_t)used;
}

static char own_program[PATH_MAX];

static int ask(struct ft_header *header, enum ft_request_kind kind, const char *program,
               const struct arguments *arguments)
{
    const struct timespec timeout = {0, WAIT_NS};
    struct ft_request *request = &header->request;
    if (!atomic_load(&request->follow) || !take_turn(header, (uint32_t)getpid()))
        return -1;
    request->kind = kind;
    tell_command(request, program, arguments);
    atomic_store(&request->state, FT_REQUEST_ASKED);
    ft_futex_wake(&header->ready_head);
    while (atomic_load(&request->state) == FT_REQUEST_ASKED && is_read(header))
        ft_futex_wait(&request->state, FT_REQUEST_ASKED, &timeout);
    int fd = -1;
    if (atomic_load(&request->state) == FT_REQUEST_GRANTED)
        fd = ft_children_open(atomic_load(&header->reader_pid), request->fd);
    atomic_store(&request->state, FT_REQUEST_NONE);
    atomic_store(&request->pid, 0);
    ft_futex_wake(&request->pid);
    return fd;
}

int ft_children_ask(struct ft_header *header)
{
    return ask(header, FT_REQUEST_FORK, NULL, NULL);
}

int ft_children_ask_as(struct ft_header *of_parent, enum ft_request_kind kind, const char *program, char *const *words)
{
    struct arguments arguments = {(char **)words, NULL, 0, 0};
    while (words[arguments.count])
        arguments.count++;
    return ask(of_parent, kind, program, &arguments);
}

/* ---- execve ----------------------------------------------------------------------------------------------------- */

static bool add(struct arguments *list, const char *string, size_t length)
{
    if (list->count + 1 >= MAX_ARGUMENTS || length + 1 > MAX_ARGUMENT_BYTES - list->used)
        return false;
    list->pointers[list->count++] = list->text + list->used;
    list->pointers[list->count] = NULL;
    memcpy(list->text + list->used, string, length);
    list->text[list->used + length] = 0;
    list->used += length + 1;
    return true;
}

static bool start(struct arguments *list)
{
    *list = (struct arguments){calloc(MAX_ARGUMENTS, sizeof(char *)), malloc(MAX_ARGUMENT_BYTES), 0, 0};
    return list->pointers && list->text;
}

static void finish(struct arguments *list)
{
    free(list->pointers);
    free(list->text);
}

/* Reads a string of the guest: its length, or -1 if it is not readable or not shorter than `size`. */
static ssize_t read_string(int memory, uint64_t address, char *out, size_t size)
{
    size_t length = 0;
    while (length < size) {
        size_t wanted = 4096 - (address + length) % 4096; /* no further than the page goes */
        wanted = wanted < size - length ? wanted : size - length;
        ssize_t got = pread(memory, out + length, wanted, (off_t)(address + length));
        if (got <= 0)
            return -1;
        char *end = memchr(out + length, 0, (size_t)got);
        if (end)
            return end - out;
        length += (size_t)got;
    }
    return -1;
}

/* Reads a vector of strings of a guest with 64-bit pointers. NULL stands for an empty one. */
static bool read_vector(int memory, uint64_t base, uint64_t vector, struct arguments *list)
{
    for (uint64_t i = 0; vector; i++) {
        uint64_t pointer;
        if (pread(memory, &pointer, sizeof pointer, (off_t)(base + vector + 8 * i)) != sizeof pointer)
            return false;
        if (pointer == 0)
            break;
        char *text = list->text + list->used;
        ssize_t length = read_string(memory, base + pointer, text, MAX_ARGUMENT_BYTES - list->used);
        if (length < 0 || list->count + 1 >= MAX_ARGUMENTS)
            return false;
        list->pointers[list->count++] = text;
        list->pointers[list->count] = NULL;
        list->used += (size_t)length + 1;
    }
    return true;
}

/* Running it under the engine must not take from a program what the system would have given it with its file. */
static bool has_privileges(const char *path)
{
    struct stat status;
    char capability[64];
    return stat(path, &status) != 0 || (status.st_mode & (S_ISUID | S_ISGID)) ||
           getxattr(path, "security.capability", capability, sizeof capability) >= 0;
}

/* The first bytes of an executable file; their number, or -1. */
static ssize_t read_head(const char *path, char *head, size_t size)
{
    int fd = faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = fd >= 0 ? read(fd, head, size) : -1;
    if (fd >= 0)
        close(fd);
    return got;
}

static bool is_program(const char *head, ssize_t length, uint32_t elf_machine)
{
    const Elf64_Ehdr *elf = (const void *)head;
    return length >= (ssize_t)sizeof *elf && memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0 &&
           elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_ident[EI_DATA] == ELFDATA2LSB &&
           elf->e_machine == elf_machine && (elf->e_type == ET_EXEC || elf->e_type == ET_DYN);
}

/* Takes a line "#!interpreter argument" apart (execve(2), interpreter scripts). False if there is none. */
static bool read_script(char *head, ssize_t length, char **interpreter, char **argument)
{
    if (length < 3 || memcmp(head, "#!", 2) != 0)
        return false;
    head[length < SCRIPT_LINE_BYTES ? length : SCRIPT_LINE_BYTES - 1] = 0;
    char *line = head + 2, *end = strchr(line, '\n');
    if (!end)
        return false; /* cut off: the system decides what that means */
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = 0;
    line += strspn(line, " \t");
    *interpreter = line;
    line += strcspn(line, " \t");
    *argument = *line ? line + 1 + strspn(line + 1, " \t") : NULL;
    *line = 0;
    return **interpreter != 0;
}

/* What is to be run in the end, once scripts are replaced by their interpreters. `program` is the file, `arguments` are
 * those it gets. False for what the engine cannot run. */
static bool resolve(uint32_t elf_machine, char program[PATH_MAX], struct arguments *arguments)
{
    for (int depth = 0; depth <= MAX_INTERPRETERS; depth++) {
        _Alignas(16) char head[SCRIPT_LINE_BYTES];
        char *interpreter, *argument;
        ssize_t length = read_head(program, head, sizeof head);
        if (length < 0 || has_privileges(program))
            return false;
        if (is_program(head, length, elf_machine))
            return true;
        struct arguments longer;
        if (!read_script(head, length, &interpreter, &argument) || strlen(interpreter) >= PATH_MAX || !start(&longer))
            return false;
        bool fits = add(&longer, interpreter, strlen(interpreter)) &&
                    (!argument || add(&longer, argument, strlen(argument))) && add(&longer, program, strlen(program));
        for (size_t i = 1; fits && i < arguments->count; i++)
            fits = add(&longer, arguments->pointers[i], strlen(arguments->pointers[i]));
        if (!fits) {
            finish(&longer);
            return false;
        }
        finish(arguments);
        *arguments = longer;
        strcpy(program, interpreter);
    }
    return false;
}

/* This process's arguments, each with a NUL after it, as far as they fit. Returns their length. */
static ssize_t read_command_line(char *text, size_t size)
{
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, size - 1) : -1;
    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = 0;
    return got;
}

void ft_children_remember(void)
{
    char text[16384];
    ssize_t got = read_command_line(text, sizeof text);
    for (char *word = text; word < text + got; word += strlen(word) + 1) {
        char *name = word + strlen(word) + 1;
        if (strcmp(word, "-0") == 0 && name < text + got) {
            char *path = name + strlen(name) + 1;
            if (path < text + got && !realpath(path, own_program))
                own_program[0] = 0;
            return;
        }
    }
}

/* The engine's command line as it was given to this process, up to the program, but with another stream. */
static bool engine_command(struct arguments *command, int fd)
{
    static const char option[] = ",fd=";
    char text[16384];
    ssize_t got = read_command_line(text, sizeof text);
    for (char *word = text; word < text + got; word += strlen(word) + 1) {
        if (strcmp(word, "-0") == 0)
            return true;
        char changed[PATH_MAX + 64], *number = strstr(word, option);
        if (number) {
            snprintf(changed, sizeof changed, "%.*s%s%d", (int)(number - word), word, option, fd);
            if (!add(command, changed, strlen(changed)))
                return false;
        } else if (!add(command, word, strlen(word))) {
            return false;
        }
    }
    return false;
}

/* Whether a path names the program that runs: for the system it would be the engine. */
static bool names_itself(const char *path)
{
    char own[32];
    snprintf(own, sizeof own, "/proc/%d/exe", getpid());
    return strcmp(path, "/proc/self/exe") == 0 || strcmp(path, "/proc/thread-self/exe") == 0 || strcmp(path, own) == 0;
}

static void run_engine(struct ft_header *header, const char *program, const struct arguments *arguments, char **envp)
{
    char engine[PATH_MAX], file[PATH_MAX + 2];
    struct arguments command = {0};
    ssize_t length = readlink("/proc/self/exe", engine, sizeof engine - 1);
    int fd = length > 0 ? ask(header, FT_REQUEST_EXEC, program, arguments) : -1;
    if (fd < 0)
        return;
    engine[length] = 0;
    snprintf(file, sizeof file, "%s%s", program[0] == '/' ? "" : "./", program); /* never an option of the engine's */
    const char *name = arguments->pointers[0];
    bool fits = start(&command) && engine_command(&command, fd) && add(&command, "-0", 2) &&
                add(&command, name, strlen(name)) && add(&command, file, strlen(file));
    for (size_t i = 1; fits && i < arguments->count; i++)
        fits = add(&command, arguments->pointers[i], strlen(arguments->pointers[i]));
    if (fits) {
        atomic_store(&header->replaced, 1);
        execve(engine, command.pointers, envp);
        atomic_store(&header->replaced, 0);
    }
    finish(&command);
    close(fd);
}

void ft_children_execve(struct ft_header *header, uint64_t path, uint64_t argv, uint64_t envp)
{
    char program[PATH_MAX];
    struct arguments arguments = {0}, environment = {0};
    int memory = atomic_load(&header->request.follow) ? open("/proc/self/mem", O_RDONLY | O_CLOEXEC) : -1;
    if (memory < 0)
        return;
    if (start(&arguments) && start(&environment) &&
        read_string(memory, header->guest_base + path, program, sizeof program) > 0 &&
        read_vector(memory, header->guest_base, argv, &arguments) && arguments.count > 0 &&
        read_vector(memory, header->guest_base, envp, &environment) &&
        (!names_itself(program) || (*own_program && strcpy(program, own_program))) &&
        resolve(header->request.elf_machine, program, &arguments))
        run_engine(header, program, &arguments, environment.pointers);
    finish(&arguments);
    finish(&environment);
    close(memory);
}
