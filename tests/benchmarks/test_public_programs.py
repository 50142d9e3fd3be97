"""Programs that nobody here wrote: the list, how answers are judged, and a run on toy sources."""

import contextlib
import platform
import re

import pytest
from compilers import compiler_for
from msgspec.structs import replace

from foretrace.base.errors import EngineError
from foretrace.benchmarks.__main__ import main
from foretrace.benchmarks.harness.results import prediction_table
from foretrace.benchmarks.validation import public_programs
from foretrace.benchmarks.validation.first_principles import Expected
from foretrace.benchmarks.validation.public_programs import (
    PROGRAMS,
    Kernel,
    Program,
    Row,
    ThreadRow,
    Triaged,
    builds,
    cells,
    folder_of,
    is_within,
    kernel_row,
    kernel_summary,
    listed,
    origins,
    summary,
    table_a,
    table_b,
    thread_cells,
    thread_summary,
    triaged,
)

_, LISTED = listed()
TOY = Program(
    name="toy", repository="somebody/toys", commit="0" * 40, language="C", command=("{folder}/toy",), input="none",
    region=("toy.c:3-9",), expected="leave", reason="a recurrence",
)  # fmt: skip
EXPECTED = Expected(core_s=8.0, cores_s=2.0, device_low_s=1.0, device_high_s=1.0)


def instance(line: int, answer: str, host_s: float, device_s: float | None, thread_s: float | None = None) -> dict:
    """A row of triage's JSON."""
    return {
        "file": "/src/toy.c", "line": line, "answer": answer, "host_s": host_s, "thread_s": thread_s,
        "accelerator_s": device_s,
    }  # fmt: skip


def document(*instances: dict, host_s: float = 10.0, after_s: float = 5.0, threads_s: float | None = None) -> dict:
    """Triage's JSON, as far as it is read."""
    return {
        "instances": list(instances),
        "program": {"host_s": host_s, "after_s": after_s, "threads_s": threads_s},
    }


def test_the_list_has_enough_programs_with_their_origin_and_a_reason():
    assert len(LISTED) == len({one.name for one in LISTED}) >= 20
    assert sum(bool(one.threaded_command) for one in LISTED) >= 10
    assert {one.expected for one in LISTED} == {"port", "leave"}
    for one in LISTED:
        assert len(one.reason) > 40
        assert (one.command[0] == "{python}") == (one.language == "Python")
        assert set(re.findall(r"\{\w+\}", " ".join(one.command))) <= {"{folder}", "{python}"}
        assert not one.threaded_command or one.threaded_command != one.command


def test_work_goes_with_what_is_ported(tmp_path):
    text = PROGRAMS.read_text()
    assert "\nwork = " in text
    path = tmp_path / "programs.toml"
    path.write_text(re.sub(r"\nwork = .*", "", text))
    with pytest.raises(EngineError, match=r"programs\.toml: .*work is given for what is ported"):
        listed(path)
    with pytest.raises(EngineError, match=r"none\.toml"):
        builds(tmp_path / "none.toml")


def test_a_region_is_lines_of_named_files():
    assert TOY.holds("/anywhere/toy.c", 3)
    assert TOY.holds("toy.c", 9)
    assert not TOY.holds("toy.c", 10)
    assert not TOY.holds("other.c", 5)
    assert not TOY.holds("", 0)


def test_the_answer_is_that_of_the_main_part_of_the_region():
    steps = instance(3, "leave", 10.0, None)
    assert triaged(document(steps, instance(4, "port", 9.0, 1.0)), TOY).answer == "port"
    assert triaged(document(steps, instance(4, "port", 1.0, 0.1)), TOY).answer == "leave"
    assert triaged(document(steps, instance(4, "thread", 9.0, 1.0, 0.5)), TOY).answer == "thread"
    assert triaged(document(instance(40, "port", 9.0, 1.0)), TOY).answer == "none"


def test_the_host_is_the_faster_of_a_core_and_all_of_them():
    found = triaged(
        document(instance(4, "port", 6.0, 1.0, 2.0), instance(5, "port", 3.0, 1.0, 4.0), threads_s=6.0), TOY
    )
    assert (found.host_s, found.device_s, found.speedup) == (5.0, 2.0, 2.5)
    assert found.program_speedup == pytest.approx(6.0 / 5.0)
    assert triaged(document(), TOY).speedup is None


def row(one: Triaged, cores: Triaged, expected: Expected | None = EXPECTED) -> Row:
    """A row of table A."""
    return Row(TOY, expected, 2.0, 1.0, one, cores)


def test_right_is_the_answer_and_both_speedups():
    eight, two = Triaged("port", 8.0, 1.0, 3.0), Triaged("port", 2.0, 1.0, 1.5)
    assert row(eight, two).is_right
    assert row(eight, Triaged("thread", 3.9, 1.0, 1.0)).is_right
    assert "0.40 of the reference over all cores" in row(eight, Triaged("thread", 0.8, 1.0, 1.0)).wrong
    assert "2.12 of the reference over one core" in row(Triaged("port", 17.0, 1.0, 3.0), two).wrong
    assert row(Triaged("leave", 0.0, 0.0, 1.0), two).wrong == "leave, where porting pays"
    assert not Row(TOY, EXPECTED, problem="trace: no end within 9 s").is_right


def test_right_is_nothing_gained_where_nothing_pays():
    nothing, thread = Triaged("leave", 0.0, 0.0, 1.05), Triaged("thread", 1.0, 2.0, 1.0)
    assert row(nothing, thread, None).is_right
    assert "port" in row(Triaged("port", 2.0, 1.0, 1.05), thread, None).wrong
    assert "1.50 times as fast" in row(Triaged("leave", 0.0, 0.0, 1.5), thread, None).wrong


def test_tables_have_every_program_and_say_what_failed():
    good = row(Triaged("port", 8.0, 1.0, 3.0), Triaged("port", 2.0, 1.0, 1.5))
    bad = Row(replace(TOY, name="other"), None, problem="building: no | compiler")
    assert cells(good)[-1] == "right"
    assert cells(bad)[-1] == "wrong: building: no | compiler"
    assert summary([good, bad]) == "1 of 2 right, 1 without an answer; run times: median error 50%"
    tables = (table_a([good, bad]), table_b([ThreadRow("toy", problem="trace: it died")]), origins([good, bad]))
    text = "\n".join(table.as_markdown() for table in tables)
    assert "| wrong: building: no \\| compiler |" in text
    assert "[somebody/toys](https://github.com/somebody/toys), 000000000000" in text
    assert "| toy | - | - | - | - | - | - | - | - | - | trace: it died |" in text


def test_threads_are_compared_by_speedup():
    found = ThreadRow("toy", 4.0, {1: 4.04, 2: 2.02, 4: 2.02}, {1: 8.0, 2: 4.2, 4: 3.0})
    assert found.one_thread == pytest.approx(0.01)
    assert found.speedups(2) == (pytest.approx(2.0), pytest.approx(8 / 4.2))
    assert found.error(2) == pytest.approx(0.05)
    assert not is_within(found)
    assert is_within(ThreadRow("toy", 4.0, {1: 4.04, 2: 2.02, 4: 2.02}, {1: 8.0, 2: 4.2, 4: 3.9}))
    assert thread_cells(found)[-1] == "no"
    assert "1 of 1 replays of one thread within 2%" in thread_summary([found])
    assert "1 of 2 speed-ups within 10%" in thread_summary([found])
    busy = ThreadRow("toy", 4.0, {1: 4.0, 2: 2.0, 4: 2.0}, {1: None, 2: 4.0, 4: 4.0}, "others had 80% of the cores")
    assert busy.error(2) is None
    assert thread_cells(busy)[-1] == "others had 80% of the cores"


def test_kernels_are_compared_with_those_of_the_program():
    kernel = Kernel("toy.c:3-9", 2e-6, "one of toy")
    rows = [kernel_row("toy", kernel, time_s) for time_s in (1e-6, 4e-6, 4.1e-6, None)]
    assert [row.ratio for row in rows] == pytest.approx([0.5, 2.0, 2.05, None])
    cells = ["toy", "1 µs", "2 µs", "0.50", "toy.c:3-9", "one of toy"]
    assert prediction_table("kernels", rows).rows[0] == cells
    assert kernel_summary(rows) == "2 of 4 within a factor of 2"


def test_a_missing_folder_says_where_it_is_from(tmp_path):
    with pytest.raises(EngineError, match=r"github\.com/somebody/toys at 000000000000"):
        folder_of(TOY, tmp_path)
    (tmp_path / "toys").mkdir()
    assert folder_of(TOY, tmp_path) == tmp_path / "toys"
    (tmp_path / "toy").mkdir()
    assert folder_of(TOY, tmp_path) == tmp_path / "toy"


SERIAL = """#include <stdio.h>
int main(void) {
  unsigned value = 1;
  for (int i = 0; i < 2000000; i++)
    value = value * 1664525u + 1013904223u;
  printf("%u\\n", value);
}
"""


def test_toy_sources_are_built_traced_and_judged(tmp_path, capsys):
    compiler = compiler_for(platform.machine())
    sources = tmp_path / "sources"
    for name in ("toy", "broken", "endless"):
        (sources / name).mkdir(parents=True)
        (sources / name / "toy.c").write_text(SERIAL)
    reference = PROGRAMS.read_text().split("[[programs]]")[0]
    entries = [
        f'name = "{name}"\nrepository = "somebody/{name}"\ncommit = "{"0" * 40}"\nlanguage = "C"\ninput = "none"\n'
        'command = ["{folder}/toy"]\nregion = ["toy.c:3-9"]\nexpected = "leave"\nreason = "a recurrence"\n'
        '[[programs.kernels]]\nat = "toy.c:3-9"\nkernel_s = 1e-6\nwhat = "one of toy"\n'
        for name in ("toy", "broken", "endless", "missing")
    ]
    (tmp_path / "programs.toml").write_text("\n[[programs]]\n".join((reference, *entries)))
    (tmp_path / "builds.toml").write_text(
        f'[toy]\nserial = ["{compiler} -O1 -g -o toy toy.c"]\n'
        '[broken]\nserial = ["echo no such compiler >&2; exit 3"]\n'
        '[endless]\nserial = ["sleep 600"]\n'
    )
    arguments = ["--sources", sources, "--builds", tmp_path / "builds.toml", "--programs", tmp_path / "programs.toml"]
    arguments += ["--machine", "epyc-milan-vm", "--rounds", "1", "-o", tmp_path / "out.md"]
    command = ["public-programs", *map(str, arguments)]
    assert main([*command, "--limit", "250", "toy", "broken", "missing"]) == 0
    text = (tmp_path / "out.md").read_text()
    assert re.search(r"\| toy \| .* \| leave, leave \| .* \| right \|", text)
    assert "| wrong: building: no such compiler |" in text
    assert f"not in {sources}: github.com/somebody/missing at 000000000000" in text
    assert "1 of 3 right, 2 without an answer" in text
    assert "| toy | - | 1 µs | - | toy.c:3-9 | one of toy | not ported |" in text
    assert "| broken | - | 1 µs | - | toy.c:3-9 | one of toy | building: no such compiler |" in text
    assert not (sources / "toy" / "toy").exists(), "programs are built in a copy"
    assert main([*command, "--limit", "1", "endless"]) == 0
    assert "building: no end within 1 s" in (tmp_path / "out.md").read_text()
    assert "1 of 3 right, 2 without an answer" in capsys.readouterr().out


def test_an_interrupted_run_leaves_its_first_part(tmp_path, monkeypatch):
    def interrupted(*_arguments):
        yield Row(TOY, None, problem="building: no compiler")
        raise KeyboardInterrupt

    monkeypatch.setattr(public_programs, "compare", interrupted)
    output = tmp_path / "out.md"
    with pytest.raises(KeyboardInterrupt):
        main(["public-programs", "--sources", str(tmp_path), "--machine", "epyc-milan-vm", "-o", str(output)])
    assert "| wrong: building: no compiler |" in output.read_text()


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--limit", "0"], ["nobody"]])
def test_bad_arguments_are_refused(arguments, tmp_path):
    command = ["public-programs", "--sources", str(tmp_path), "--machine", "epyc-milan-vm", *arguments]
    with contextlib.suppress(SystemExit):
        assert main(command) != 0
