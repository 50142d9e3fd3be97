"""The notebook in docs/ runs from top to bottom, and shows tables and pictures; the cell magic works in IPython."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import foretrace

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
MOST_BYTES = 20_000


def kinds_shown(cell: Any) -> set[str]:
    return {kind for output in cell.outputs for kind in output.get("data", {})}


def printed(cell: Any) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    plots = [cell for cell in cells if ".plot(" in cell.source]
    assert len(plots) >= 4 and all("image/png" in kinds_shown(cell) for cell in plots)
    for name in ("run", "prediction", "hosts", "triage", "block"):
        (cell,) = [cell for cell in cells if cell.source.splitlines()[-1] == name]
        assert "text/html" in kinds_shown(cell), name
        (text,) = [output.data["text/plain"] for output in cell.outputs if "data" in output]
        assert len(text.splitlines()) < 30 and max(map(len, text.splitlines())) < 400
    (of_run,) = [cell for cell in cells if cell.source.splitlines()[-1] == "run"]
    assert "In[2]:" in of_run.outputs[0].data["text/html"], "lines are those of cells"
    (block,) = [cell for cell in cells if cell.source.startswith("with foretrace.trace()")]
    assert printed(block) == "in the fork: 10000\n"
    (magic,) = [cell for cell in cells if cell.source.startswith("%%foretrace")]
    assert printed(magic) == f"{sum(number % 7 for number in range(10_000))}\n"
    assert "text/html" in kinds_shown(magic)


def test_no_outputs_are_stored() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not [cell for cell in notebook.cells if cell.get("outputs")]
    assert NOTEBOOK.stat().st_size < MOST_BYTES


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = InteractiveShell.instance()
    yield made
    InteractiveShell.clear_instance()


def test_names_complete(shell: InteractiveShell) -> None:
    shell.run_cell("import foretrace\nhosts = foretrace.machines().hosts")
    for text, expected in {"foretrace.tri": "triage", 'hosts["epyc-97': "epyc-9755"}.items():
        with provisionalcompleter():
            found = [one.text for one in shell.Completer.completions(text, len(text))]
        assert any(expected in one for one in found), (text, found)


def test_a_terminal_shows_tables_of_results_and_lines_within_others(shell: InteractiveShell) -> None:
    machine = foretrace.find_machine("grace")
    assert shell.display_formatter.format(machine)[0]["text/plain"] == str(machine)
    assert shell.display_formatter.format([machine])[0]["text/plain"] == f"[{machine!r}]"


def test_the_cell_magic(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_line_magic("load_ext", "foretrace")
    shell.run_cell("def double(values):\n    return [2 * value for value in values]\n")
    done = shell.run_cell("%%foretrace -o run\nkept = double(range(40))\nprint(len(kept))")
    assert isinstance(done.result, foretrace.Trace) and shell.user_ns["run"] is done.result
    assert "40" in capsys.readouterr().out.split() and "kept" not in shell.user_ns
    assert [loop.iterations for loop in done.result.signature.loops if "double" in loop.function] == [40]
    done = shell.run_cell("%%foretrace grace\nsum(range(9))")
    assert isinstance(done.result, foretrace.Prediction)
    assert isinstance(shell.run_cell("%%foretrace\n1 / 0").error_in_exec, foretrace.TracedFunctionError)
    capsys.readouterr()
    shell.run_cell("import foretrace; foretrace.predict(run, 'gracee')")
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("ProfileError: 'gracee'") and len(shown) == 1, "no lines of the library"
    assert "gracee" in str(shell.run_cell("%%foretrace gracee\n1").error_in_exec)
    assert isinstance(shell.run_cell("%%foretrace\n1 +").error_in_exec, SyntaxError)
