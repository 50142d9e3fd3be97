"""The library for programs: what it counts, keeps and refuses."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from event_programs import PRINT, build, run

from foretrace.tracer.events import board_file, linking
from foretrace.tracer.events.board_file import Board, read_board
from foretrace.tracer.signature.event_records import EventKind

Compile = Callable[..., Path]


def only_board(folder: Path) -> Board:
    (path,) = folder.iterdir()
    return read_board(path)


STRUCTURES = {
    "board": board_file.CBoard, "board_event": board_file.CEvent, "board_chunk": board_file.CChunk,
    "board_recording": board_file.CRecording, "board_lane": board_file.CLane, "board_element": board_file.CElement,
}  # fmt: skip


@pytest.mark.parametrize(("name", "structure"), STRUCTURES.items())
def test_the_reader_has_the_layout_of_the_header(
    name: str, structure: type[ctypes.Structure], compile_c: Compile
) -> None:
    fields = [field[0] for field in structure._fields_]
    lines = "".join(f'printf("%zu ", offsetof(struct {name}, {field}));' for field in fields)
    source = f"""
    #include "tracer/events/board.h"
    #include <stdio.h>
    int main(void) {{ {lines} printf("%zu", sizeof(struct {name})); }}
    """
    root = Path(__file__).parents[3]
    printed = subprocess.run([compile_c(source, f"-I{root}")], capture_output=True, text=True, check=True).stdout
    of_reader = [getattr(structure, field).offset for field in fields]
    assert [int(word) for word in printed.split()] == [*of_reader, ctypes.sizeof(structure)]


def test_every_thread_counts_and_none_is_lost(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    #include <pthread.h>
    static void *counter, *recorder;
    static void *work(void *thread)
    {
        for (int i = 0; i < 156250; i++) {
            const double value = (double)(long)thread * 156250 + i;
            papi_sde_inc_counter(counter, 2);
            papi_sde_record(recorder, sizeof value, &value);
        }
        return NULL;
    }
    int main(void)
    {
        papi_handle_t library = papi_sde_init("many");
        papi_sde_create_counter(library, "counts", PAPI_SDE_INSTANT, &counter);
        papi_sde_create_recorder(library, "values", sizeof(double), papi_sde_compare_double, &recorder);
        pthread_t threads[64];
        for (long i = 0; i < 64; i++)
            pthread_create(&threads[i], NULL, work, (void *)i);
        for (int i = 0; i < 64; i++)
            pthread_join(threads[i], NULL);
        print("many::counts");
        print("many::values:CNT");
    }
    """
    )
    done = run(build(compile_c, source, "-O2"), tmp_path, FORETRACE_EVENTS_KEEP="1")
    assert done.stdout == "many::counts 20000000\nmany::values:CNT 10000000\n"
    counts, values = only_board(tmp_path).events
    assert counts.value == 20_000_000
    assert values.values is not None
    assert np.array_equal(np.sort(values.values.kept), np.arange(1e7))


def test_what_was_counted_survives_the_process(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    #include <signal.h>
    int main(void)
    {
        static long long variable = 7;
        void *counter, *recorder;
        papi_handle_t library = papi_sde_init("killed");
        papi_sde_register_counter(library, "variable", PAPI_SDE_RO, PAPI_SDE_long_long, &variable);
        papi_sde_create_counter(library, "counter", PAPI_SDE_RO, &counter);
        papi_sde_create_recorder(library, "recorder", sizeof(int), papi_sde_compare_int, &recorder);
        for (int i = 0; i < 100000; i++) {
            papi_sde_inc_counter(counter, 1);
            papi_sde_record(recorder, sizeof i, &i);
        }
        kill(getpid(), SIGKILL);
    }
    """
    )
    assert run(build(compile_c, source), tmp_path).returncode == -signal.SIGKILL
    variable, counter, recorder = only_board(tmp_path).events
    assert (variable.value, variable.unread) == (None, "it was in the memory of the process, which was killed")
    assert counter.value == 100_000
    assert recorder.values is not None
    assert np.array_equal(recorder.values.kept, np.arange(100_000))


def test_a_process_killed_while_threads_record_leaves_all_up_to_then(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    #include <pthread.h>
    static void *counter, *recorder;
    static void *work(void *thread)
    {
        for (long i = 0;; i++) {
            const long value = i * 4 + (long)thread;
            papi_sde_record(recorder, sizeof value, &value);
            papi_sde_inc_counter(counter, 1);
            if (i == 20000 && thread == 0) {
                puts("counting");
                fflush(stdout);
            }
        }
    }
    int main(void)
    {
        papi_handle_t library = papi_sde_init("killed");
        papi_sde_create_counter(library, "counter", PAPI_SDE_RO, &counter);
        papi_sde_create_recorder(library, "recorder", sizeof(long), papi_sde_compare_long_long, &recorder);
        pthread_t threads[4];
        for (long i = 1; i < 4; i++)
            pthread_create(&threads[i], NULL, work, (void *)i);
        work(0);
    }
    """
    )
    environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(tmp_path)}
    program = build(compile_c, source, "-O2")
    with subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "counting\n"
        process.kill()
    counter, recorder = only_board(tmp_path).events
    assert recorder.values is not None
    kept = recorder.values.kept
    of_threads = [kept[kept % 4 == thread] // 4 for thread in range(4)]
    assert len(of_threads[0]) > 20_000
    for values in of_threads:
        assert np.array_equal(values, np.arange(len(values)))
    assert isinstance(counter.value, int)
    assert 0 <= len(kept) - counter.value <= 4, "each thread was between its two calls at most"


COMPARISONS = {
    "crashes": "return *(volatile int *)0;",
    "is inconsistent": "static unsigned state; state = state * 1664525 + 1; return (state >> 30) ? 1 : -1;",
    "never ends equal": "return 1;",
}


@pytest.mark.parametrize("body", COMPARISONS.values(), ids=list(COMPARISONS))
def test_a_bad_comparison_harms_nobody_who_does_not_ask(body: str, compile_c: Compile, tmp_path: Path) -> None:
    """Only the quartiles that a tool asks for in the process call it. All values are still there."""
    source = (
        PRINT
        + "static int compare(const void *left, const void *right) { (void)left; (void)right; "
        + body
        + """ }
    int main(int argc, char **argv)
    {
        void *recorder;
        (void)argv;
        papi_sde_create_recorder(papi_sde_init("l"), "recorder", sizeof(int), compare, &recorder);
        for (int i = 0; i < 5000; i++)
            papi_sde_record(recorder, sizeof i, &i);
        print("l::recorder:CNT");
        if (argc > 1)
            print("l::recorder:MED");
        puts("ended");
    }
    """
    )
    program = build(compile_c, source)
    assert run(program, tmp_path, FORETRACE_EVENTS_KEEP="1").stdout == "l::recorder:CNT 5000\nended\n"
    (recorder,) = only_board(tmp_path).events
    assert recorder.value == 5000
    if "volatile" not in body:
        assert run(program, tmp_path, "ask").stdout.endswith("\nended\n")


def test_a_running_process_is_read_from_outside(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    int main(void)
    {
        static double variable = 2.5;
        void *set;
        papi_handle_t library = papi_sde_init("running");
        papi_sde_register_counter(library, "variable", PAPI_SDE_RO, PAPI_SDE_double, &variable);
        papi_sde_create_counting_set(library, "set", &set);
        papi_sde_counting_set_insert(set, 2, 2, "ab", 3);
        papi_sde_counting_set_insert(set, 2, 2, "ab", 3);
        puts("ready");
        fflush(stdout);
        pause();
    }
    """
    )
    program = build(compile_c, source)
    environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(tmp_path)}
    with subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        board = only_board(tmp_path)
        process.kill()
    assert board.process == process.pid
    variable, counting_set = board.events
    assert variable.value in (2.5, None), variable.unread  # None: reading memory of others is not allowed here
    assert [(one.content, one.type_id, one.count) for one in counting_set.elements] == [(b"ab", 3, 2)]


def test_a_forked_process_counts_for_itself(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    #include <sys/wait.h>
    int main(void)
    {
        void *counter, *recorder;
        papi_handle_t library = papi_sde_init("family");
        papi_sde_create_counter(library, "counter", PAPI_SDE_INSTANT, &counter);
        papi_sde_create_recorder(library, "recorder", sizeof(int), NULL, &recorder);
        papi_sde_inc_counter(counter, 5);
        int value = 1;
        papi_sde_record(recorder, sizeof value, &value);
        if (fork() == 0) {
            papi_sde_inc_counter(counter, 10);
            papi_sde_record(recorder, sizeof value, &value);
            print("family::counter");
            print("family::recorder:CNT");
            exit(0);
        }
        wait(NULL);
        papi_sde_inc_counter(counter, 100);
        print("family::counter");
        print("family::recorder:CNT");
    }
    """
    )
    done = run(build(compile_c, source), tmp_path, FORETRACE_EVENTS_KEEP="1")
    assert sorted(done.stdout.split()) == sorted(
        ["family::counter", "15", "family::recorder:CNT", "2", "family::counter", "105", "family::recorder:CNT", "1"]
    )
    boards = [read_board(path) for path in tmp_path.iterdir()]
    assert sorted(board.events[0].value or 0 for board in boards) == [15, 105]


def test_nothing_is_left_by_a_process_that_ends(compile_c: Compile, tmp_path: Path) -> None:
    source = PRINT + 'int main(void) { papi_sde_init("short"); }'
    assert run(build(compile_c, source), tmp_path).returncode == 0
    assert not list(tmp_path.iterdir())


def test_without_a_place_for_the_file_the_process_counts_alone(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    int main(void)
    {
        void *counter;
        papi_sde_create_counter(papi_sde_init("alone"), "counter", PAPI_SDE_INSTANT, &counter);
        papi_sde_inc_counter(counter, 3);
        print("alone::counter");
    }
    """
    )
    assert run(build(compile_c, source), tmp_path / "missing").stdout == "alone::counter 3\n"


def test_a_library_that_is_unloaded_cannot_be_read(compile_c: Compile, tmp_path: Path) -> None:
    """Neither its variables nor its callbacks are touched; what it created stays."""
    unloaded = compile_c(
        """
        #include <foretrace_events.h>
        static long long variable = 4;
        static long long callback(void *parameter) { (void)parameter; return 5; }
        void begin(void)
        {
            papi_handle_t library = papi_sde_init("unloaded");
            papi_sde_register_counter(library, "variable", PAPI_SDE_INSTANT, PAPI_SDE_long_long, &variable);
            papi_sde_register_counter_cb(library, "callback", PAPI_SDE_INSTANT, PAPI_SDE_long_long, callback, NULL);
        }
        """,
        f"-I{linking.library().parent / 'include'}", "-shared", "-fPIC",
    )  # fmt: skip
    source = (
        PRINT
        + """
    #include <dlfcn.h>
    int main(int argc, char **argv)
    {
        void *library = dlopen(argv[1], RTLD_NOW);
        ((void (*)(void))dlsym(library, "begin"))();
        print("unloaded::variable");
        print("unloaded::callback");
        dlclose(library);
        print("unloaded::variable");
        print("unloaded::callback");
        return argc - 2;
    }
    """
    )
    done = run(build(compile_c, source, "-ldl"), tmp_path, str(unloaded))
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "unloaded::variable 4", "unloaded::callback 5", "unloaded::variable error -1", "unloaded::callback error -1"
    ]  # fmt: skip


REFUSED = {
    "a handle that is NULL": ("papi_sde_register_counter(NULL, 0, 0, 0, &value)", 0),
    "a counter that is NULL": ('papi_sde_register_counter(library, "new", 0, 0, NULL)', -1),
    "a name that is NULL": ("papi_sde_register_counter(library, NULL, 0, 0, &value)", -1),
    "a type that is none": ('papi_sde_register_counter(library, "new", 0, 9, &value)', -1),
    "a mode that is none": ('papi_sde_register_counter(library, "new", 0x80, 0, &value)', -4),
    "a handle of something else": ('papi_sde_register_counter(&value, "new", 0, 0, &value)', -1),
    "an event twice": ('papi_sde_register_counter(library, "variable", 0, 0, &value)', 0),
    "a counter where there is another event": ('papi_sde_create_counter(library, "variable", 0, &out)', -1),
    "an unknown event ended": ('papi_sde_unregister_counter(library, "absent")', -1),
    "an unknown event described": ('papi_sde_describe_counter(library, "absent", "")', -1),
    "an unknown event in a group": ('papi_sde_add_counter_to_group(library, "absent", "group", 0)', -1),
    "a group of other flags": ('papi_sde_add_counter_to_group(library, "variable", "sum", PAPI_SDE_MAX)', -1),
    "a group in itself": ('papi_sde_add_counter_to_group(library, "sum", "sum", PAPI_SDE_SUM)', -1),
    "a group in its member": ('papi_sde_add_counter_to_group(library, "outer", "sum", PAPI_SDE_SUM)', -1),
    "a recorder of 2^62 bytes": ('papi_sde_create_recorder(library, "new", (size_t)1 << 62, NULL, &out)', -1),
    "a recorder of values of another size": ('papi_sde_create_recorder(library, "recorder", 4, NULL, &out)', -1),
    "a recorder of 0 bytes": ('papi_sde_create_recorder(library, "new", 0, NULL, &out)', -1),
    "a value of another size": ("papi_sde_record(recorder, 4, &value)", -1),
    "a value that is NULL": ("papi_sde_record(recorder, 8, NULL)", -1),
    "a counter as a recorder": ("papi_sde_record(counter, 8, &value)", -1),
    "a recorder as a counter": ("papi_sde_inc_counter(recorder, 1)", -1),
    "any address as a counter": ("papi_sde_inc_counter(&value, 1)", -1),
    "a counter that has ended": ("papi_sde_inc_counter(ended, 1)", -1),
    "an element longer than it is": ("papi_sde_counting_set_insert(set, 2, 8, &value, 0)", -1),
    "an element of any size": ("papi_sde_counting_set_insert(set, (size_t)-1, 8, &value, 0)", -1),
    "a counter as a counting set": ("papi_sde_counting_set_insert(counter, 8, 8, &value, 0)", -1),
    "a library that has ended": ('(papi_sde_shutdown(library), papi_sde_create_counter(library, "new", 0, &out))', -1),
}


@pytest.fixture
def refusing(compile_c: Compile) -> Path:
    """A program that makes each of the calls by its number, and goes on."""
    cases = "".join(f"case {n}: code = {call}; break;" for n, (call, _) in enumerate(REFUSED.values()))
    return build(
        compile_c,
        PRINT
        + """
    int main(int argc, char **argv)
    {
        static long long value = 1;
        void *counter, *recorder, *set, *ended, *out;
        papi_handle_t library = papi_sde_init("refusing");
        papi_sde_register_counter(library, "variable", PAPI_SDE_INSTANT, PAPI_SDE_long_long, &value);
        papi_sde_create_counter(library, "counter", PAPI_SDE_RO, &counter);
        papi_sde_create_counter(library, "ended", PAPI_SDE_RO, &ended);
        papi_sde_unregister_counter(library, "ended");
        papi_sde_create_recorder(library, "recorder", 8, NULL, &recorder);
        papi_sde_create_counting_set(library, "set", &set);
        papi_sde_add_counter_to_group(library, "variable", "sum", PAPI_SDE_SUM);
        papi_sde_add_counter_to_group(library, "sum", "outer", PAPI_SDE_SUM);
        int code = argc - 2;
        switch (atoi(argv[1])) { """
        + cases
        + """ }
        printf("%d\\n", code);
        if (atoi(argv[1]) != """
        + str(len(REFUSED) - 1)
        + """)
            print("refusing::outer");
    }
    """,
    )


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=list(REFUSED))
def test_what_cannot_be_is_refused(number: int, refusing: Path, tmp_path: Path) -> None:
    done = run(refusing, tmp_path, str(number), PAPI_VERBOSE="1")
    code = list(REFUSED.values())[number][1]
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(code)
    assert done.stdout.splitlines()[1:] in (["refusing::outer 1"], [])
    assert len(done.stderr.splitlines()) == (code != 0), "a line says why"


def test_names_may_be_long_and_odd(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + r"""
    int main(void)
    {
        static long long value = 6;
        static char name[10001];
        memset(name, 'x', 10000);
        papi_handle_t library = papi_sde_init("odd");
        papi_sde_register_counter(library, name, PAPI_SDE_INSTANT, PAPI_SDE_long_long, &value);
        papi_sde_register_counter(library, "a::b:\033[31m", PAPI_SDE_INSTANT, PAPI_SDE_long_long, &value);
        print("odd::a::b:\033[31m");
    }
    """
    )
    done = run(build(compile_c, source), tmp_path, FORETRACE_EVENTS_KEEP="1")
    assert done.stdout == "odd::a::b:\033[31m 6\n"
    long, odd = only_board(tmp_path).events
    assert (long.name, long.value) == ("x" * 10_000, 6)
    assert (odd.library, odd.name) == ("odd", "a::b:\033[31m")


def test_resets_and_writes(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    int sde_ti_name_to_code(const char *, uint32_t *);
    int sde_ti_write_counter(uint32_t, long long);
    int main(void)
    {
        void *counter, *recorder;
        papi_handle_t library = papi_sde_init("reset");
        papi_sde_create_counter(library, "counter", PAPI_SDE_RW | PAPI_SDE_INSTANT, &counter);
        papi_sde_create_recorder(library, "recorder", sizeof(double), papi_sde_compare_double, &recorder);
        for (int i = 0; i < 100000; i++) {
            double value = i;
            papi_sde_record(recorder, sizeof value, &value);
        }
        papi_sde_inc_counter(counter, 9);
        papi_sde_reset_counter(counter);
        papi_sde_inc_counter(counter, 2);
        print("reset::counter");
        uint32_t id;
        sde_ti_name_to_code("reset::counter", &id);
        sde_ti_write_counter(id, 40);
        papi_sde_inc_counter(counter, 2);
        print("reset::counter");
        papi_sde_reset_recorder(recorder);
        print("reset::recorder:CNT");
        for (int i = 0; i < 50000; i++) {
            double value = -i;
            papi_sde_record(recorder, sizeof value, &value);
        }
        print("reset::recorder:CNT");
        papi_sde_unregister_counter(library, "recorder");
        papi_sde_create_recorder(library, "recorder", 3, NULL, &recorder);
        print("reset::recorder:CNT");
        papi_sde_record(recorder, 3, "abc");
    }
    """
    )
    done = run(build(compile_c, source), tmp_path, FORETRACE_EVENTS_KEEP="1")
    assert [int(line.split()[1]) for line in done.stdout.splitlines()] == [2, 42, 0, 50_000, 0]
    recorder = only_board(tmp_path).events[-1]
    assert recorder.kind is EventKind.RECORDER
    assert recorder.values is not None
    assert recorder.values.kept.tobytes() == b"abc"


def test_the_older_spellings(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        "#include <papi_sde_interface.h>\n"
        + PRINT
        + """
    static long long seven(void *parameter) { (void)parameter; return 7; }
    int main(void)
    {
        void *counter, *recorder, *compared;
        void *library = papi_sde_init("older");
        papi_sde_register_fp_counter(library, "seven", PAPI_SDE_INSTANT, PAPI_SDE_long_long, seven, NULL);
        papi_sde_create_counter(library, "counter", PAPI_SDE_INSTANT, &counter);
        papi_sde_create_recorder(library, "recorder", sizeof(int), &recorder);
        papi_sde_create_recorder(library, "compared", sizeof(int), papi_sde_compare_int, &compared);
        int value = 3;
        papi_sde_record(recorder, sizeof value, &value);
        papi_sde_inc_counter(counter, 2);
        print("older::seven");
        print("older::counter");
        print("older::recorder:CNT");
        print("older::recorder:MAX");
        print("older::compared:MAX");
    }
    """
    )
    done = run(build(compile_c, source), tmp_path)
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["7", "2", "1", "-1", "0"]


def test_groups_combine_their_members(compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    int main(void)
    {
        static int values[] = {5, 3, 9};
        const char *names[] = {"a", "b", "c"};
        papi_handle_t library = papi_sde_init("groups");
        for (int i = 0; i < 3; i++) {
            papi_sde_register_counter(library, names[i], PAPI_SDE_INSTANT, PAPI_SDE_int, &values[i]);
            papi_sde_add_counter_to_group(library, names[i], "sum", PAPI_SDE_SUM);
            papi_sde_add_counter_to_group(library, names[i], "least", PAPI_SDE_MIN);
            papi_sde_add_counter_to_group(library, names[i], "most", PAPI_SDE_MAX);
        }
        papi_sde_add_counter_to_group(library, "sum", "of groups", PAPI_SDE_SUM);
        papi_sde_add_counter_to_group(library, "most", "of groups", PAPI_SDE_SUM);
        print("groups::sum");
        print("groups::least");
        print("groups::most");
        print("groups::of groups");
        papi_sde_unregister_counter(library, "c");
        print("groups::of groups");
    }
    """
    )
    done = run(build(compile_c, source), tmp_path)
    assert [int(line.split()[-1]) for line in done.stdout.splitlines()] == [17, 3, 9, 26, 13]


@pytest.mark.parametrize("cut", [0, 7, 40, 4000])
def test_a_board_that_is_cut_off_is_refused(cut: int, compile_c: Compile, tmp_path: Path) -> None:
    source = (
        PRINT
        + """
    int main(void)
    {
        void *counter;
        papi_sde_create_counter(papi_sde_init("cut"), "counter", PAPI_SDE_RO, &counter);
        papi_sde_inc_counter(counter, 1);
    }
    """
    )
    run(build(compile_c, source), tmp_path, FORETRACE_EVENTS_KEEP="1")
    (path,) = tmp_path.iterdir()
    os.truncate(path, cut)
    with pytest.raises(board_file.EventsError, match=r"is cut off|holds no events"):
        read_board(path)


def test_a_damaged_board_ends_in_an_error_or_in_time(compile_c: Compile, tmp_path: Path) -> None:
    """Every byte of the head and of the first events, changed: no list goes on for ever, nothing large is read."""
    source = (
        PRINT
        + """
    int main(void)
    {
        void *recorder, *set;
        papi_handle_t library = papi_sde_init("damaged");
        papi_sde_create_recorder(library, "recorder", 8, papi_sde_compare_double, &recorder);
        papi_sde_create_counting_set(library, "set", &set);
        double value = 1;
        papi_sde_record(recorder, 8, &value);
        papi_sde_counting_set_insert(set, 8, 8, &value, 0);
    }
    """
    )
    run(build(compile_c, source), tmp_path, FORETRACE_EVENTS_KEEP="1")
    (path,) = tmp_path.iterdir()
    descriptor = os.open(path, os.O_RDWR)
    for offset in range(0, 1200, 3):
        kept = os.pread(descriptor, 1, offset)
        os.pwrite(descriptor, bytes([kept[0] ^ 0xFF]), offset)
        try:
            read_board(path)
        except board_file.EventsError as error:
            assert str(path) in str(error)
        os.pwrite(descriptor, kept, offset)
    os.close(descriptor)
    assert read_board(path).events
