"""^C on a terminal: one ends the program, a second does no harm, a third gives the signature up."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from effort import sweep

from foretrace.tracer.signature.file import read_signature

ENDLESS = r"""
#include <stdio.h>
static volatile double a[4096];
int main(void) {
    puts("ready"); fflush(stdout);
    for (unsigned i = 0;; i++) a[i * 37 % 4096] += i;
}"""

HANDLES = r"""
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile sig_atomic_t caught;
static void note(int number) { (void)number; caught++; }
int main(void) {
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGINT, &action, NULL);
    puts("ready"); fflush(stdout);
    for (int told = 0; told < 3;) {
        while (caught == told) usleep(1000);
        printf("caught %d\n", ++told); fflush(stdout);
    }
    return 7;
}"""

SCRIPT = """
print("ready", flush=True)
x = 0
while True:
    x += 1
"""


@dataclass
class Trace:
    """A trace on a terminal of its own, with the program's and its own output."""

    process: subprocess.Popen[bytes]
    terminal: int
    output: bytes = b""

    def read_until(self, text: bytes) -> None:
        while text not in self.output:
            self.output += os.read(self.terminal, 4096)

    def press(self) -> None:
        """^C, as the terminal turns it into a signal to all of its foreground group."""
        os.write(self.terminal, b"\x03")

    def end(self) -> int:
        while True:
            try:
                more = os.read(self.terminal, 4096)
            except OSError:  # nobody has the other end any more
                break
            if not more:
                break
            self.output += more
        os.close(self.terminal)
        return self.process.wait()


FORETRACE = ("-m", "foretrace")

WRITES_UNTIL_INTERRUPTED = """
import time
from foretrace.tracer.signature import file
def write_signature(*arguments, **options):
    print("writing", flush=True)
    while True:
        time.sleep(0.1)
file.write_signature = write_signature
from foretrace.__main__ import run
run()
"""
"""A foretrace whose signature is not written before it is given up."""


def start(command: Sequence[str], foretrace: Sequence[str] = FORETRACE) -> Trace:
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    process = subprocess.Popen(
        [sys.executable, "-P", *foretrace, *command],
        stdin=theirs, stdout=theirs, stderr=theirs,
        preexec_fn=lambda: os.login_tty(theirs),
    )  # fmt: skip
    os.close(theirs)
    return Trace(process, ours)


@sweep("gap_s", [0.0, 0.02, 0.1, 0.3, None], [0.0, 0.1, None])
@pytest.mark.parametrize("language", ["c", "python"])
def test_a_second_interrupt_loses_nothing(
    gap_s: float | None, language: str, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """At once, soon after the first, or (None) when the first has ended the program and its signature is worked out."""
    (tmp_path / "endless.py").write_text(SCRIPT)
    program = ["--", str(compile_c(ENDLESS))] if language == "c" else [str(tmp_path / "endless.py")]
    trace = start(["trace", "-o", str(tmp_path / "x.sig"), *program])
    trace.read_until(b"ready")
    trace.press()
    if gap_s is None:
        wait_for_end_of_children(trace.process.pid)
    else:
        time.sleep(gap_s)
    trace.press()
    assert trace.end() == -signal.SIGINT
    assert b"Traceback" not in trace.output or language == "python"
    read = read_signature(tmp_path / "x.sig")
    assert not read.provenance.complete
    assert read.totals.instructions > 0


def wait_for_end_of_children(pid: int) -> None:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    with suppress(OSError):  # it may have ended, too
        while path.read_text().split():
            time.sleep(0.001)


def test_a_third_interrupt_gives_up(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    command = ["trace", "-o", str(tmp_path / "x.sig"), "--", str(compile_c(ENDLESS))]
    trace = start(command, ("-c", WRITES_UNTIL_INTERRUPTED))
    trace.read_until(b"ready")
    trace.press()
    trace.read_until(b"writing\r\n")
    trace.press()
    trace.read_until(b"^C once more gives up")
    trace.press()
    assert trace.end() == -signal.SIGINT
    assert f"foretrace: gave up; {tmp_path}/x.sig not written".encode() in trace.output
    assert list(tmp_path.iterdir()) == []


def test_interrupts_that_the_program_handles_are_its_own(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    trace = start(["trace", "-o", str(tmp_path / "x.sig"), "--", str(compile_c(HANDLES))])
    trace.read_until(b"ready")
    for number in range(1, 4):
        trace.press()
        trace.read_until(b"caught %d" % number)
    assert trace.end() == 7
    assert read_signature(tmp_path / "x.sig").provenance.complete


WORKS_UNTIL_TOLD = """
import time
from foretrace.tracer import runs
analyse = runs.BinaryRun.analyse
def wait_and_analyse(self, recording, members, step):
    def wait(name):
        if step(name):
            print("working", flush=True)
            while step(name):
                time.sleep(0.01)
        return False
    return analyse(self, recording, members, wait)
runs.BinaryRun.analyse = wait_and_analyse
from foretrace.__main__ import run
run()
"""
"""A foretrace that has to be told before it goes on behind the program's end."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_behind_the_programs_end_writes_what_there_is(
    number: signal.Signals, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    command = ["trace", "-o", str(tmp_path / "x.sig"), "--", str(compile_c("int main(void) { return 3; }"))]
    trace = start(command, ("-c", WORKS_UNTIL_TOLD))
    trace.read_until(b"working")
    trace.process.send_signal(number)
    assert trace.end() == 3
    assert b"foretrace: writing what was recorded; " in trace.output
    read = read_signature(tmp_path / "x.sig")
    assert read.totals.instructions > 0
    assert "left out, as foretrace was told to stop: idioms, dependences, data flow" in read.provenance.notes


def test_a_second_sigterm_gives_up(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    command = ["trace", "-o", str(tmp_path / "x.sig"), "--", str(compile_c("int main(void) { return 3; }"))]
    trace = start(command, ("-c", WRITES_UNTIL_INTERRUPTED))
    trace.read_until(b"writing\r\n")
    trace.process.send_signal(signal.SIGTERM)
    trace.read_until(b"SIGTERM once more gives up")
    trace.process.send_signal(signal.SIGTERM)
    assert trace.end() == -signal.SIGTERM
    assert not (tmp_path / "x.sig").exists()
