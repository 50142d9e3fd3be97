"""How a run can end badly, and what is said of it: nothing hangs, nothing is left behind, and the status is right."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import run_traced, trace_command
from polling import wait_until
from process_programs import FORKS_OFTEN

Compile = Callable[..., Path]

AVX512 = r"""
#include <immintrin.h>
#include <stdio.h>
static double a[64], b[64];
__attribute__((noinline, target("avx512f"))) void add_ones(void) {
    for (int i = 0; i < 64; i += 8)
        _mm512_storeu_pd(b + i, _mm512_add_pd(_mm512_loadu_pd(a + i), _mm512_set1_pd(1)));
}
int main(void) { puts("begins"); fflush(stdout); add_ones(); printf("%g\n", b[3]); return 0; }"""

UNKNOWN_INSTRUCTION = r"""
#include <pthread.h>
#include <unistd.h>
static void *lacking(void *nothing) { __asm__ volatile(".byte 0x0f, 0x38, 0xf9, 0x07"); return nothing; }
int main(void) {
    pthread_t thread; pthread_create(&thread, 0, lacking, 0);
    for (;;) pause();
}"""

ENDS_ITSELF = r"""
#include <signal.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    if (atoi(argv[1])) raise(SIGILL);
    __builtin_trap(); return argc;
}"""

CATCHES = r"""
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static sigjmp_buf back;
static void caught(int s) { siglongjmp(back, s); }
int main(void) {
    signal(SIGILL, caught);
    if (sigsetjmp(back, 1) == 0) __asm__ volatile(".byte 0x62, 0xf1, 0xfd, 0x48, 0x28, 0xc0"); /* vmovapd zmm0, zmm0 */
    puts("has no AVX-512"); return 0;
}"""


def test_instruction_beyond_the_engine_is_named_with_its_line_and_the_flag_to_use(
    compile_c: Compile, tmp_path: Path
) -> None:
    run = run_traced(tmp_path, compile_c(AVX512, "-O1"))
    assert (run.returncode, run.stdout) == (-signal.SIGILL, "begins\n")
    [line] = run.stderr.splitlines()
    assert line.startswith("foretrace: the program was killed by SIGILL at v")
    assert "zmm" in line
    assert re.search(r" in add_ones \(\S+/program\w+\.c:[567], \S+/program\w+\): ", line)
    assert line.endswith("compile with -mno-avx512f, or for -march=x86-64-v3")
    assert run.signature.provenance.incomplete_reason == line.removeprefix("foretrace: ")


def test_unknown_instruction_of_another_thread(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(UNKNOWN_INSTRUCTION, "-O1"))
    assert run.returncode == -signal.SIGILL
    [line] = run.stderr.splitlines()
    assert "movdiri dword ptr [rdi], eax in lacking (" in line
    assert ".c:4, " in line
    assert "compile for -march=x86-64-v3" in line


@pytest.mark.parametrize("by_raise", [0, 1])
def test_program_that_means_to_die_by_sigill_is_not_commented(
    by_raise: int, compile_c: Compile, tmp_path: Path
) -> None:
    run = run_traced(tmp_path, compile_c(ENDS_ITSELF, "-O1"), str(by_raise))
    assert (run.returncode, run.stderr) == (-signal.SIGILL, "")
    assert run.signature.provenance.incomplete_reason == "the program was killed by SIGILL"


def test_program_that_asks_by_trying_goes_on(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(CATCHES, "-O1"))
    assert (run.returncode, run.stdout, run.stderr) == (0, "has no AVX-512\n", "")
    assert run.signature.provenance.complete


def test_what_the_engine_says_of_an_end_is_passed_on(compile_c: Compile, tmp_path: Path) -> None:
    loader = tmp_path / "no \x1bloader"
    loader.write_text("not an ELF file, which QEMU finds out")
    program = compile_c("int main(void) { return 0; }", f"-Wl,--dynamic-linker={loader}")
    result = subprocess.run(
        [sys.executable, "-P", "-m", "foretrace", "trace", "-o", str(tmp_path / "x.sig"), "--", str(program)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode != 0
    [line] = result.stderr.splitlines()
    assert line.startswith("foretrace: qemu-x86_64")
    assert "no \\x1bloader" in line


MANY_THREADS = r"""
#include <pthread.h>
#include <stdio.h>
static pthread_barrier_t all_run;
static volatile int counted[200][64];
static void *work(void *p) {
    pthread_barrier_wait(&all_run);
    for (int i = 0; i < 64; i++) ((volatile int *)p)[i]++;
    return 0;
}
int main(void) {
    pthread_t threads[200];
    pthread_barrier_init(&all_run, 0, 200);
    for (int i = 0; i < 200; i++) if (pthread_create(&threads[i], 0, work, (void *)counted[i])) return 1;
    for (int i = 0; i < 200; i++) pthread_join(threads[i], 0);
    puts("joined"); return 3;
}"""

CLOSES_EVERYTHING = r"""
#include <fcntl.h>
#include <unistd.h>
static volatile int x[1000];
int main(void) {
    for (int fd = 0; fd < 1024; fd++) close(fd);
    for (int i = 0; i < 1000; i++) x[i] = i;
    return open("/dev/null", O_RDONLY) == 0 ? 5 : 6;
}"""

DAEMON = r"""
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (fork()) return 4;
    setsid();
    if (fork()) _exit(0);
    for (int fd = 0; fd < 3; fd++) close(fd);
    usleep(300000);
    return mkdir(argv[1], 0700) || argc != 2;
}"""


BECOMES_ANOTHER = r"""
#include <unistd.h>
int main(void) { execl("/bin/sh", "sh", "-c", "echo another; exit 11", (char *)0); return 1; }"""


WORKS_LONG = r"""
#include <stdio.h>
int main(void) {
    puts("begins"); fflush(stdout);
    for (volatile long i = 0; i < 60000000; i++) {}
    puts("ends"); return 0;
}"""

LIMITED = """
import os, resource, sys
resource.setrlimit(getattr(resource, sys.argv[1]), (int(sys.argv[2]), int(sys.argv[2])))
os.execv(sys.executable, [sys.executable, "-P", "-m", "foretrace", *sys.argv[3:]])
"""


@pytest.mark.usefixtures("nothing_is_left")
def test_two_hundred_threads(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(MANY_THREADS, "-O1"))
    assert (run.returncode, run.stdout, run.stderr) == (3, "joined\n", "")
    provenance = run.signature.provenance
    assert (provenance.complete, provenance.threads, provenance.untraced_threads) == (True, 201, 0)
    assert run.accesses("work", is_store=True, at_least=201) == {4: 200 * 64}
    assert run.accesses("work", is_store=False, at_least=201) == {4: 200 * 64}


@pytest.mark.usefixtures("nothing_is_left")
def test_program_that_closes_all_descriptors(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(CLOSES_EVERYTHING, "-O1"))
    assert (run.returncode, run.stdout, run.stderr) == (5, "", "")
    assert run.signature.provenance.complete
    assert run.accesses("main", is_store=True, at_least=1000)[4] == 1000


@pytest.mark.usefixtures("nothing_is_left")
def test_daemon_lives_on_after_the_program(compile_c: Compile, tmp_path: Path) -> None:
    program = tmp_path / "daemon"
    program.write_bytes(compile_c(DAEMON).read_bytes())
    program.chmod(0o755)
    run = run_traced(tmp_path, program, tmp_path / "made")
    assert (run.returncode, run.stdout, run.stderr) == (4, "", "")
    assert run.signature.provenance.complete
    assert run.signature.provenance.untraced_children == 1  # its grandchild is not known to us
    wait_until((tmp_path / "made").is_dir)


@pytest.mark.usefixtures("nothing_is_left")
def test_a_thousand_short_lived_children(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(FORKS_OFTEN), "1000")
    assert (run.returncode, run.stdout, run.stderr) == (2, "1000 right\n", "")
    assert run.signature.provenance.complete
    assert run.signature.provenance.untraced_children == 1000


@pytest.mark.usefixtures("nothing_is_left")
def test_program_that_becomes_another(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(BECOMES_ANOTHER))
    assert (run.returncode, run.stdout, run.stderr) == (11, "another\n", "")
    assert "--follow-children traces" in run.signature.provenance.incomplete_reason


@pytest.mark.parametrize(("limit", "limit_bytes"), [("RLIMIT_FSIZE", 1 << 20), ("RLIMIT_AS", 1 << 30)])
def test_no_room_for_the_shared_memory(limit: str, limit_bytes: int, compile_c: Compile, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, limit, str(limit_bytes), "trace", "-o", str(tmp_path / "x.sig"), "--"]
    result = subprocess.run([*command, compile_c(FORKS_OFTEN), "0"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (72, "")
    [line] = result.stderr.splitlines()
    assert re.fullmatch(r"foretrace: error: cannot set up \d+ MiB of shared memory: [A-Z][a-z ]+", line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("nothing_is_left")
def test_program_outlives_a_killed_reader_however_much_it_does(compile_c: Compile, tmp_path: Path) -> None:
    command = trace_command(tmp_path / "x.sig", compile_c(WORKS_LONG))
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        process.kill()
        process.wait()
        assert process.stdout.read() == "ends\n"  # it writes more words than the shared memory has room for


def targets_of(links: Path) -> list[str]:
    """What the links of a directory lead to, but for those that are gone before they are read."""
    found = []
    for link in links.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


@pytest.mark.usefixtures("nothing_is_left")
def test_a_full_dev_shm_does_not_matter(compile_c: Compile, tmp_path: Path) -> None:
    """What foretrace and the program share lies in memory without a name, and not in that directory."""
    command = trace_command(tmp_path / "x.sig", compile_c(WORKS_LONG))
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        [engine] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in (str(process.pid), engine):
            mapped = Path(f"/proc/{pid}/maps").read_text()
            opened = targets_of(Path(f"/proc/{pid}/fd"))
            assert "memfd:foretrace-stream" in mapped
            assert "/dev/shm" not in mapped
            assert not [path for path in opened if path.startswith("/dev/shm")]
        process.kill()
