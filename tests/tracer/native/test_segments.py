"""Undisturbed times by segments: what is noted in a program, that it is left alone, and what is made of the times."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import platform
import shutil
import subprocess

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_samples import PROVENANCE

from foretrace.base.neighbours import SegmentTime
from foretrace.cli import group
from foretrace.tracer.native import segments, stamp_points
from foretrace.tracer.native.segments import UndividedError, segment_times, sums_of_least, time_by_segments
from foretrace.tracer.native.stamp_code import Place, displaced_at
from foretrace.tracer.native.stamped_run import StampedRun, TimeStampCounter, run_stamped
from foretrace.tracer.native.timing import divide, time_natively
from foretrace.tracer.signature.records import Block, Signature

on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 programs are divided")

KNOWN = r"""
// `outer` runs 30 times, or as often as asked, and in it `inner` 1000 times. What a stub must not change is in each:
// a red zone, flags that are carried over its place, and data addressed by their distance. The exit code is a sum.
#include <stdlib.h>
unsigned total;
__asm__(".text\n.globl outer, inner, carried\n"
        "outer: mov %rdi, -8(%rsp)\n mov %rsi, -120(%rsp)\n"
        "again: mov total(%rip), %eax\n add -120(%rsp), %eax\n"
        " stc\n jmp inner\n"
        "inner: lea (%rax), %rax\n nopl 0(%rax)\n adc $1, %eax\n add -8(%rsp), %eax\n rol $3, %eax\n"
        " mov %eax, total(%rip)\n dec %rdi\n jnz again\n ret\n");
void outer(long times, long step);
int main(int argc, char **argv)
{
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 30); i++) outer(1000, 7 + i);
    return (total ^ total >> 8 ^ total >> 16) & 127;
}
"""

LONG = "3000"
"""So often `outer` runs some milliseconds."""


def places_of(program, **periods):
    """Where functions begin, with how often time is noted there."""
    import capstone

    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = {line.split()[-1]: int(line.split()[0], 16) for line in symbols.splitlines() if line[0] != " "}
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    files = stamp_points._Files()
    found = []
    for name, period in periods.items():
        where = files.code(block(program, address[name], 1))
        assert where
        displaced = displaced_at(where, address[name], 5, decoder)
        assert displaced is not None, name
        found.append(Place(str(program), address[name], period, displaced))
    return tuple(found)


def block(program, offset, executions, function="f", instructions=5):
    return Block(0, str(program), offset, function, "", 0, None, executions, instructions, ())


def signature_of(program, **counts):
    """One with these functions' first blocks, as often executed as told."""
    places = places_of(program, **counts)
    blocks = tuple(
        msgspec.structs.replace(block(program, place.address, executions, function=name), block_id=number)
        for number, (place, (name, executions)) in enumerate(zip(places, counts.items(), strict=True))
    )
    return Signature(
        provenance=PROVENANCE, blocks=blocks, operations=(), loops=(), idioms=(), edges=np.zeros((0, 3), np.uint64),
        hierarchies=(), reuse=None,
    )  # fmt: skip


@pytest.fixture
def own_clock(monkeypatch):
    """Real runs of programs with a clock of their own: from each record to the next a microsecond passes."""

    def run(*arguments):
        real = run_stamped(*arguments)
        ticks = np.arange(1, len(real.ticks) + 1) * 1000
        end = int(ticks[-1]) + 1000
        return dataclasses.replace(real, ticks=ticks, end_ticks=end, wall_s=end / 1e9, cpu_s=end / 1e9 + 0.001)

    monkeypatch.setattr(segments, "run_stamped", run)


LINKED = pytest.mark.parametrize("flags", [("-no-pie",), ("-pie", "-fPIE"), ("-static",)], ids=lambda flags: flags[0])


@on_x86_64
@LINKED
def test_time_is_noted_where_and_as_often_as_asked_and_nothing_else_changes(compile_c, flags):
    program = compile_c(KNOWN, "-O1", *flags)
    plain = subprocess.run([program], check=False).returncode
    places = places_of(program, outer=1, inner=250)
    run = run_stamped(str(program), [str(program)], places, 1000, TimeStampCounter())
    assert run.exit_code == plain != 0
    assert run.numbers.tolist() == [0, 1, 1, 1, 1] * 30
    assert run.executions.tolist() == [30, 30_000]
    assert (np.diff(np.concatenate([[0], run.ticks, [run.end_ticks]])) > 0).all()


@on_x86_64
@pytest.mark.parametrize("flags", [("-no-pie",), ("-pie", "-fPIE")], ids=lambda flags: flags[0])
def test_time_is_noted_in_libraries_too(compile_c, flags):
    work = "__attribute__((noipa)) int work(int x) { for (int i = 0; i < 200; i++) x = x * 3 + i; return x; }"
    library = compile_c(work, "-O1", "-shared", "-fPIC")
    calling = """
        int work(int); __attribute__((noipa)) int twice(int x) { x = work(x * 5 + 3); return work(x + 1) & 3; }
        int main(void) { int x = 1; for (int i = 0; i < 10; i++) x += twice(x); return x; }"""
    program = compile_c(calling, "-O1", *flags, "-Wl,--no-as-needed", str(library))
    places = (*places_of(library, work=1), *places_of(program, twice=1))
    run = run_stamped(str(program), ["x"], places, 100, TimeStampCounter())
    assert run.exit_code == subprocess.run([program], check=False).returncode != 0
    assert run.numbers.tolist() == [1, 0, 0] * 10
    absent = (*places, *places_of(compile_c(work, "-O2", "-shared", "-fPIC"), work=1))
    run = run_stamped(str(program), ["x"], absent, 100, TimeStampCounter())
    assert run.numbers.tolist() == [1, 0, 0] * 10, "of what is not loaded there is nothing to note"


@on_x86_64
def test_records_beyond_the_room_are_left_out(compile_c):
    program = compile_c(KNOWN, "-O1", "-pie", "-fPIE")
    plain = subprocess.run([program], check=False).returncode
    run = run_stamped(str(program), [str(program)], places_of(program, inner=1), 300, TimeStampCounter())
    assert (run.exit_code, len(run.numbers)) == (plain, 300)


@on_x86_64
def test_a_program_that_goes_the_same_way_is_timed_by_segments(compile_c, own_clock):
    program = compile_c(KNOWN, "-O1", "-pie", "-fPIE")
    plain = subprocess.run([program, LONG], check=False).returncode
    signature = signature_of(program, outer=int(LONG), inner=1000 * int(LONG))
    found = time_by_segments(
        signature,
        str(program),
        ["x", LONG],
        about_s=0.01,
        exit_code=plain,
        best_s=math.inf,
        budget_s=0.0,
    )
    assert 0 < found.low_s <= found.time_s <= found.high_s
    assert found.runs == segments.LEAST_RUNS
    assert found.segments >= 1


def test_an_interrupt_interrupts_the_timing_of_segments(compile_c):
    source = """
        #include <signal.h>
        __attribute__((noipa)) int work(int x) { for (int i = 0; i < 200; i++) x = x * 3 + i; return x; }
        int main(void) { for (int i = 0; i < 500; i++) work(i); return raise(SIGINT); }"""
    program = compile_c(source, "-O1")
    with pytest.raises(KeyboardInterrupt):
        time_by_segments(
            signature_of(program, work=500),
            str(program),
            ["x"],
            about_s=0.01,
            exit_code=0,
            best_s=math.inf,
            budget_s=0.0,
        )


REFUSED = {
    "it does not go the same way each time": r"""
        #include <unistd.h>
        __attribute__((noipa)) int work(int x) { for (int i = 0; i < 200; i++) x = x * 3 + i; return x; }
        int main(void) { int x = 0; for (int i = getpid() % 900 + 100; i; i--) x += work(i); return x == 17; }""",
    "divided, it ended with": r"""
        #include <fcntl.h>
        #include <unistd.h>
        __attribute__((noipa)) int work(int x) { for (int i = 0; i < 200; i++) x = x * 3 + i; return x; }
        int main(int argc, char **argv) { for (int i = 0; i < 50; i++) work(i);
            return *(unsigned char *)work == 0xe9 || *(unsigned char *)((char *)work + 4) == 0xe9; }""",
    "it waits for something": r"""
        #include <unistd.h>
        __attribute__((noipa)) int work(int x) { usleep(1000); for (int i = 0; i < 200; i++) x += i; return x; }
        int main(void) { int x = 0; for (int i = 0; i < 20; i++) x += work(i); return x == 17; }""",
    "far more often than its signature says": r"""
        __attribute__((noipa)) int work(int x) { for (int i = 0; i < 20; i++) x = x * 3 + i; return x; }
        int main(void) { int x = 0; for (int i = 0; i < 20000; i++) x += work(i); return x == 17; }""",
}


@on_x86_64
@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_divided_is_refused_with_the_reason(compile_c, reason):
    program = compile_c(REFUSED[reason], "-O1")
    executions = 1 if "signature" in reason else 1000
    with pytest.raises(UndividedError, match=reason):
        time_by_segments(
            signature_of(program, work=executions),
            str(program),
            ["x"],
            about_s=0.1,
            exit_code=0,
            best_s=math.inf,
            budget_s=0.0,
        )


ENDS = {
    "signal": r"""
        #include <signal.h>
        static volatile int seen;
        static void handle(int number) { seen = number; }
        __attribute__((noipa)) int work(int x) { for (int i = 0; i < 200; i++) x = x * 3 + i; return x; }
        int main(void) { signal(SIGUSR1, handle);
            for (int i = 0; i < 50; i++) { work(i); raise(SIGUSR1); } raise(SIGKILL); return seen; }""",
    "fork": r"""
        #include <sys/wait.h>
        #include <unistd.h>
        __attribute__((noipa)) int work(int x) { for (int i = 0; i < 200; i++) x = x * 3 + i; return x; }
        int main(void) { int status = 0; work(1); if (fork() == 0) _exit(work(2) == 5); wait(&status); work(3);
            return WEXITSTATUS(status) + 4; }""",
    "early": r"""
        #include <unistd.h>
        __attribute__((noipa)) int work(int x) { for (int i = 0; i < 200; i++) x = x * 3 + i; return x; }
        int main(void) { for (int i = 0; i < 5; i++) work(i); _exit(3); }""",
}


@on_x86_64
@pytest.mark.parametrize(("kind", "ending"), [("signal", -9), ("fork", 4), ("early", 3)])
def test_signals_children_and_endings_are_the_programs_own(compile_c, kind, ending):
    program = compile_c(ENDS[kind], "-O1")
    run = run_stamped(str(program), ["x"], places_of(program, work=1), 100, TimeStampCounter())
    assert run.exit_code == ending
    assert set(run.numbers.tolist()) == {0}
    assert len(run.numbers) == {"signal": 50, "fork": 3, "early": 5}[kind]


@on_x86_64
def test_a_timing_says_why_it_has_no_segments(compile_c):
    program = compile_c(ENDS["early"], "-O1")
    whole = signature_of(program, work=5)
    threads = msgspec.structs.replace(PROVENANCE, threads=2)
    several = Signature(
        provenance=threads, blocks=whole.blocks, operations=(), loops=(), idioms=(), edges=whole.edges, hierarchies=(),
        reuse=None,
    )  # fmt: skip
    timing = divide(time_natively([str(program)]), several, 0.0)
    assert (timing.segments, timing.undivided) == (None, "it has several threads or processes")
    assert timing.time_s == timing.shortest.cpu_s
    script = divide(time_natively(["sh", "-c", "exit 3"]), whole, 0.0)
    assert "its signature is of another program" in script.undivided


@on_x86_64
def test_the_command_writes_segments_and_predictions_show_them(
    compile_c, foretrace, tmp_path, own_clock, capfd, monkeypatch
):
    monkeypatch.setattr(segments, "no_more_than", lambda found, _: found)  # whole runs have another clock
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("needs qemu-x86_64 (Debian package qemu-user)")
    program = compile_c(KNOWN, "-O1")
    signature, timing = tmp_path / "x.sig", tmp_path / "x.timing"
    code = foretrace("trace", "-o", signature, "--", program, LONG).returncode
    command = ["time", "-o", timing, "--signature", signature, "--seconds", "0", "--", program, LONG]
    assert group.main([*map(str, command)], standalone_mode=False) == code
    assert capfd.readouterr() == ("", "")
    shown = foretrace("predict", signature, "--machine", "jaguar-xt4", "--timing", timing, "--json")
    measured = json.loads(shown.stdout)["measured"]
    assert measured["undivided"] == ""
    assert measured["segments"]["runs"] == segments.LEAST_RUNS
    assert measured["time_s"] == measured["segments"]["time_s"] > 0
    assert measured["least_alone_s"] == measured["segments"]["low_s"]


def test_the_least_of_halves_is_that_of_all_halves():
    times = np.array([[3.0, 1.0], [1.0, 4.0], [2.0, 2.0], [7.0, 3.0], [5.0, 9.0]])
    least, of_half = sums_of_least(times)
    assert least == 2.0
    halves = [times[list(half)].min(axis=0).sum() for half in itertools.combinations(range(5), 2)]
    assert of_half == pytest.approx(np.mean(halves))


def stamped(ticks, numbers, end):
    """A run with a tick of a nanosecond."""
    return StampedRun(ticks, numbers, np.zeros(1, np.int64), end, end / 1e9, 1.0, 0, 0)


def test_records_in_another_order_are_left_out():
    ticks = np.arange(1, 201) * 1_000_000
    one = np.tile([0, 1], 100)
    swapped = one.copy()
    swapped[[10, 11]] = 1, 0
    runs = segments.in_one_order([stamped(ticks, one, 10**9), stamped(ticks, swapped, 10**9)])
    assert [run.ticks.tolist() for run in runs] == [np.delete(ticks, [10, 11]).tolist()] * 2
    assert [run.numbers.tolist() for run in runs] == [np.delete(one, [10, 11]).tolist()] * 2


def test_a_place_that_is_come_to_at_any_turn_is_left_out():
    ticks, runs = np.arange(1, 111) * 1_000_000, []
    for late in (0, 7):
        numbers = np.tile([0, 1], 50)
        runs.append(stamped(ticks, np.insert(numbers, np.arange(10) * 9 + late, 2), 10**9))
    for run, before in zip(segments.in_one_order(runs), runs, strict=True):
        assert run.numbers.tolist() == [0, 1] * 50
        assert run.ticks.tolist() == before.ticks[before.numbers != 2].tolist()


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=40), st.integers(2, 5))
def test_segments_hold_all_of_the_time(lengths, runs):
    """Each run's time is its segments' time, however records are put together."""
    ticks = np.cumsum(lengths) * 1000
    numbers = np.zeros(len(ticks) - 1, np.int64)
    made = [stamped(ticks[:-1] * factor, numbers, int(ticks[-1]) * factor) for factor in range(1, runs + 1)]
    times = segment_times(made)
    assert times.sum(axis=1) == pytest.approx([run.wall_s for run in made])
    assert times.shape[1] <= max(1, made[0].wall_s / segments.SEGMENT_S)


def test_what_lies_in_long_segments_and_what_counting_takes_is_told():
    times = np.array([[0.001, 0.009], [0.002, 0.010]])
    found = segments.summarise(times, executions=1_000_000)
    assert found.counting_s == pytest.approx(0.0005)
    assert found.time_s == pytest.approx(0.0095)
    assert (found.high_s, found.long_share) == (pytest.approx(0.010), pytest.approx(0.9))
    assert found.low_s == pytest.approx(0.010 - 3 * 0.001 - 0.001)


@pytest.mark.parametrize("busy", [0.0, 0.5, 0.8])
def test_rest_is_told_from_luck(busy):
    """40 runs of 600 segments of 1 ms, each by luck up to a tenth less or more, and half as long again for so many of
    the stretches of 20 segments."""
    rng = np.random.default_rng(1)
    times = 1e-3 * rng.uniform(0.9, 1.1, (40, 600))
    times *= np.repeat(np.where(rng.random((40, 30)) < busy, 1.5, 1.0), 20, axis=1)
    assert segments.resting_s(times) == pytest.approx(0.6, rel=0.03)
    least, _ = sums_of_least(times)
    assert least < 0.57, "of 40 times, some are by luck"
    found = segments.summarise(times, executions=0)
    assert found.low_s < 0.6 < 1.02 * found.high_s


def test_no_program_takes_longer_at_rest_than_its_shortest_run():
    """Where rest comes to whole runs, others than those around a segment tell nothing."""
    times = np.tile(np.array([[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]]), (12, 1)) * np.linspace(1, 1.2, 12)[:, None]
    times[0] *= 0.9
    assert segments.summarise(times, executions=0).time_s == pytest.approx(10.8)


def test_one_segment_takes_its_least_time():
    assert segments.resting_s(np.array([[3.0], [1.0], [2.0]])) == 1.0


def test_the_clock_at_rest_is_among_the_highest_that_each_moment_met():
    clocks = [[1e9 + number * 1e7, 2e9] for number in range(101)]
    assert segments.resting_hz(clocks) == pytest.approx((1.95e9 + 2e9) / 2)


@on_x86_64
def test_a_block_that_is_entered_under_the_jump_is_no_place(compile_c):
    """Blocks overlap where something jumps to the middle of one."""
    program = compile_c(KNOWN, "-O1", "-no-pie")
    signature = signature_of(program, outer=30, inner=30_000)
    outer = signature.blocks[0]
    for inside, kept in ((0, True), (1, False), (4, False), (5, True)):  # a jump has 5 bytes
        entered = msgspec.structs.replace(
            outer, block_id=2, function="g", offset=outer.offset + inside, executions=10**9
        )
        both = dataclasses.replace(signature, blocks=(*signature.blocks, entered))
        found = stamp_points.find_candidates(both, 1.0, 0.03)
        assert (outer.offset in [one.address for one in found]) == kept, inside


def test_places_are_chosen_that_divide_a_run_for_what_they_cost():
    """A rare one in the first half and a frequent one in the second are needed; one beside the first is not."""
    candidates = [
        stamp_points.Candidate("x", number, executions, ()) for number, executions in enumerate((1000, 1001, 10**6))
    ]
    ticks = np.concatenate([np.arange(0, 500, 2), np.arange(1, 500, 4), np.arange(500, 1000)])
    numbers = np.repeat([0, 1, 2], [250, 125, 500])
    chosen = stamp_points.choose(candidates, ticks, numbers, 1000, 0.1, 0.03)
    assert [candidate.executions for candidate, _ in chosen] == [1000, 10**6]
    dear = stamp_points.choose(candidates, ticks, numbers, 1000, 0.01, 0.03)
    assert [candidate.executions for candidate, _ in dear] == [1000]
    records = sum(candidate.executions // place.period for candidate, place in chosen)
    assert records * stamp_points.RECORDING_S <= stamp_points.RECORDING_SHARE * 0.1


@pytest.mark.parametrize(
    ("code", "instructions", "moved"),
    [
        (b"\x48\x89\xc3\x48\x89\xd8", 2, ((3, 0), (3, 0))),  # mov rbx, rax; mov rax, rbx
        (b"\x8b\x05\x10\0\0\0", 1, ((6, 2),)),  # mov eax, [rip + 16]
        (b"\x48\x89\xc3\x48\x89\xd8", 1, None),  # too short a block
        (b"\x48\x89\xc3\x74\x10\x90\x90", 2, None),  # a conditional jump after three bytes
        (b"\xe8\0\0\0\0", 1, None),  # a call
        (b"\x90\x90\x0f\x05\x90\x90", 5, None),  # a system call
    ],
)
def test_what_a_jump_displaces(code, instructions, moved):
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    found = displaced_at(code, 0x1000, instructions, decoder)
    assert moved == (None if found is None else tuple((len(one.code), one.distance_at) for one in found))


FOUND = SegmentTime(0.0667, 0.06, 0.07, runs=20, segments=300, long_share=0.1, counting_s=0.002)


def test_an_undisturbed_time_is_never_above_the_best_run():
    """Beyond an error of measurement it is no undisturbed time; a busy machine is said."""
    assert segments.no_more_than(FOUND, 0.1) == FOUND
    shorter = segments.no_more_than(FOUND, 0.065)
    assert (shorter.time_s, shorter.low_s, shorter.high_s) == (0.065, 0.06, 0.07)
    busy = dataclasses.replace(FOUND, time_s=0.169, low_s=0.15, high_s=0.2)
    with pytest.raises(
        UndividedError, match=r"the machine is busy: its segments take 169 ms at their quietest, .* 67 ms"
    ):
        segments.no_more_than(busy, 0.067)


@on_x86_64
@pytest.mark.parametrize("guest", ["x86_64", "python"])
def test_a_timing_of_a_busy_machine_falls_back_to_the_best_run(guest, compile_c, monkeypatch, tmp_path):
    """Whole runs took less than segments add up to: one that a neighbour slowed down counts as well as others."""
    program = compile_c(ENDS["early"], "-O1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("")
    timing = time_natively([str(program)])
    run = timing.runs[0]
    runs = tuple(
        dataclasses.replace(run, user_s=user_s, system_s=0.0, slowdown=slowdown)
        for user_s, slowdown in ((0.09, 1.0), (0.067, 1.5))
    )
    timing = dataclasses.replace(timing, runs=runs)
    busy = dataclasses.replace(FOUND, time_s=0.169, low_s=0.15, high_s=0.2)
    monkeypatch.setattr(segments, "_time", lambda *_: busy)
    monkeypatch.setattr(segments, "_check", lambda *_: None)
    monkeypatch.setattr(segments, "_of_interpreter", lambda *_: (None, 0.0))
    monkeypatch.setattr(segments, "is_own_python", lambda _: True)
    whole = signature_of(program, work=5)
    provenance = msgspec.structs.replace(PROVENANCE, guest=guest, command=("script.py",))
    signature = Signature(provenance, whole.blocks, (), (), (), whole.edges, (), None)
    timing = dataclasses.replace(timing, command=(timing.command[0], "script.py"))
    found = divide(timing, signature, 0.0)
    assert found.segments is None
    assert "the machine is busy: its segments take 169 ms at their quietest" in found.undivided
    assert found.time_s == found.shortest.cpu_s
