"""docs/architecture.md shows the rooms as they are."""

import import_graph


def test_the_page_lists_every_room_and_its_imports():
    assert import_graph.PAGE.read_text() == import_graph.page(), "run: python tests/helpers/import_graph.py"


def test_relative_imports_are_followed(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "from . import a\nfrom ..reader.raw_trace import RawTrace\nimport foretrace.base.errors\nimport os\n"
    )
    names = list(import_graph.imported_names(path, "foretrace.tracer.signature"))
    known = {"tracer.signature", "tracer.reader", "foretrace"}
    rooms = [import_graph.room_of(name, known) for name in names]
    assert rooms == ["tracer.signature", "tracer.reader", "foretrace", None]


def test_no_room_imports_itself_through_others():
    assert import_graph.circles(import_graph.imports()) == []


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}
    assert import_graph.circles(graph) == [["a", "b", "c"]]
