"""Programs that fork, and checks that no process is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from polling import wait_until

FORKS_OFTEN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int right = 0, forks = atoi(argv[1]);
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) _exit(i & 127);
        int status;
        if (waitpid(child, &status, 0) == child && WIFEXITED(status)) right += WEXITSTATUS(status) == (i & 127);
    }
    printf("%d right\n", right); return argc;
}"""

REPLACES_ITSELF = r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc == 1) execl("/proc/self/exe", argv[0], "again", (char *)0);
    puts(argv[1]); return 5;
}"""


def processes_of(directory: Path) -> list[str]:
    """Command lines of the processes that have to do with `directory`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has ended
        if str(directory) in command:
            found.append(command)
    return found


@pytest.fixture
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """After the test no process of it runs, and with them their shared memory, which has no name, is gone.

    Other tests' processes may keep events in /dev/shm meanwhile.
    """
    before = set(Path("/dev/shm").iterdir())
    yield
    wait_until(lambda: not processes_of(tmp_path))
    assert not [
        path
        for path in set(Path("/dev/shm").iterdir()) - before
        if "foretrace" in path.name and "events" not in path.name
    ]
