"""The set-up script, on machines that lack this and that: stand-ins for system programs record what it asks for."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / ".ci" / "setup_system.sh"
NEEDED = ("bash", "env", "grep", "cat")


PROVIDES = {"qemu-user": "qemu-x86_64", "valgrind": "valgrind", "gcc": "gcc", "python3": "python3"}


class Machine:
    """A PATH of its own. A package in PROVIDES that `apt-get install` is asked for appears on it as an executable."""

    def __init__(self, directory):
        self.path = directory / "bin"
        self.path.mkdir()
        self.log = directory / "log"
        self.log.touch()
        for name in NEEDED:
            (self.path / name).symlink_to(shutil.which(name))
        self.add("id", "echo 0")

    def add(self, name, script="exit 0"):
        file = self.path / name
        file.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def add_apt(self):
        appear = "\n".join(
            f'case " $* " in *" {package} "*) printf "#!/bin/bash\\nexit 0\\n" > {self.path}/{program};'
            f" {shutil.which('chmod')} +x {self.path}/{program};; esac"
            for package, program in PROVIDES.items()
        )
        self.add("apt-get", f'echo "apt-get $*" >> {self.log}\n{appear}')

    def add_python(self, version="(3, 12, 1)"):
        """A Python of some version that has all it needs: it answers only the question for its version."""
        self.add(
            "python3",
            f'case "$1" in -c) exec {sys.executable} -c "import sys; sys.version_info = {version}; $2";; esac\n'
            f"exec {sys.executable} -c pass",
        )

    def add_all(self):
        self.add_python()
        for name in ("gcc", "qemu-x86_64", "valgrind"):
            self.add(name)

    def setup(self, *arguments):
        return subprocess.run(
            [shutil.which("bash"), SETUP, *arguments],
            env={"PATH": str(self.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def installed(self):
        """The packages that were asked for, in all calls together."""
        words = [word for line in self.log.read_text().splitlines() if " install " in line for word in line.split()]
        return {word for word in words if not word.startswith("-")} - {"apt-get", "install"}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_says_and_does_nothing_where_nothing_is_missing(machine):
    machine.add_all()
    machine.add_apt()
    result = machine.setup("valgrind")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert machine.installed() == set()


@pytest.mark.parametrize(
    ("program", "packages"),
    [("qemu-x86_64", {"qemu-user"}), ("gcc", {"gcc", "libc6-dev"}), ("valgrind", {"valgrind"})],
)
def test_installs_only_what_is_missing_and_says_so(machine, program, packages):
    machine.add_all()
    machine.add_apt()
    (machine.path / program).unlink()
    result = machine.setup("valgrind")
    assert result.returncode == 0, result.stderr
    assert machine.installed() == packages
    assert all(package in result.stdout for package in packages)


def test_valgrind_is_installed_only_where_it_is_asked_for(machine):
    machine.add_all()
    machine.add_apt()
    (machine.path / "valgrind").unlink()
    machine.setup()
    assert machine.installed() == set()


def test_uses_sudo_where_the_user_is_not_root(machine):
    machine.add_all()
    machine.add_apt()
    (machine.path / "qemu-x86_64").unlink()
    machine.add("id", "echo 1000")
    machine.add("sudo", f'echo "sudo $*" >> {machine.log}\nexec "$@"')
    assert machine.setup().returncode == 0
    assert "sudo env DEBIAN_FRONTEND=noninteractive apt-get" in machine.log.read_text()


def test_a_cross_compiler_comes_with_its_c_library(machine):
    machine.add_all()
    machine.add_apt()
    machine.setup("aarch64-linux-gnu-gcc", "valgrind", "riscv64-linux-gnu-gcc")
    cross = {"gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross"}
    assert machine.installed() == cross


@pytest.mark.parametrize("with_apt", [True, False])
def test_one_clear_line_where_nothing_can_be_installed(machine, with_apt):
    machine.add_all()
    (machine.path / "qemu-x86_64").unlink()
    if with_apt:
        machine.add_apt()
        machine.add("id", "echo 1000")
    result = machine.setup()
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "qemu-user" in result.stderr


def test_fresh_lists_are_fetched_when_an_installation_fails(machine):
    machine.add_all()
    (machine.path / "qemu-x86_64").unlink()
    machine.add(
        "apt-get",
        f'echo "apt-get $*" >> {machine.log}\n'
        f'case "$*" in *update*) : > {machine.path}/updated;; *) [ -e {machine.path}/updated ];; esac',
    )
    assert machine.setup().returncode == 0
    assert [line.split()[2] for line in machine.log.read_text().splitlines()] == ["install", "update", "install"]
