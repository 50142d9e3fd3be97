"""Memory maps: hand-made copies, our own, and arbitrary text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.tracer.analysis.modules import ANONYMOUS, UNMAPPED, Mapping, ModuleMap, parse_maps

MAPS = """\
555555554000-555555555000 r--p 00000000 08:01 131 /usr/bin/program
555555555000-555555557000 r-xp 00001000 08:01 131 /usr/bin/program
7ffff7d00000-7ffff7d01000 rw-p 00000000 00:00 0
7ffff7dc0000-7ffff7de0000 r-xp 00028000 08:01 77                         /lib/with space/libc.so.6
7ffff7fc0000-7ffff7fc2000 r-xp 00000000 00:00 0                          [vdso]
7ffff7fd0000-7ffff7fd1000 r-xp 00000000 08:01 78                         /tmp/gone.so (deleted)
"""


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (0x555555555123, ("/usr/bin/program", 0x1123)),
        (0x555555556FFF, ("/usr/bin/program", 0x2FFF)),
        (0x555555557000, (UNMAPPED, 0x555555557000)),
        (0x7FFFF7D00010, (ANONYMOUS, 0x10)),
        (0x7FFFF7DC0004, ("/lib/with space/libc.so.6", 0x28004)),
        (0x7FFFF7FC0100, ("[vdso]", 0x100)),
        (0x7FFFF7FD0001, ("/tmp/gone.so (deleted)", 1)),
        (0, (UNMAPPED, 0)),
    ],
)
def test_places(address: int, place: tuple[str, int]) -> None:
    assert ModuleMap([MAPS], 0).locate(address) == place


def test_guest_addresses_are_below_host_addresses() -> None:
    base = 0x555555554000
    assert ModuleMap([MAPS], base).locate(0x1123) == ("/usr/bin/program", 0x1123)
    assert ModuleMap([MAPS], base + 0x1000).find(0x7FFFF7FC0100 - base - 0x1000) is not None
    mappings, damaged = parse_maps(MAPS, 0x7FFFF7D00000)
    assert [m.start for m in mappings][:2] == [0, 0xC0000]
    assert damaged == 0


def test_a_later_copy_wins_where_it_says_something() -> None:
    first = "1000-3000 r-xp 00000000 08:01 1 /a\n"
    second = "2000-4000 r-xp 00005000 08:01 1 /b\n"
    both = ModuleMap([first, second], 0)
    assert [both.locate(a) for a in (0x1800, 0x2800, 0x3800)] == [("/a", 0x800), ("/b", 0x5800), ("/b", 0x6800)]
    assert ModuleMap([second, first], 0).locate(0x2800) == ("/a", 0x1800)


def test_an_escaped_line_break_in_a_path() -> None:
    assert ModuleMap(["1000-2000 r-xp 00000000 08:01 1 /a\\012b\n"], 0).locate(0x1000) == ("/a\nb", 0)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "2000-1000 r-xp 00000000 08:01 1 /backwards",
        "1000-2000 r-xp 0000000g 08:01 1 /offset",
        "1000-20000000000000000 r-xp 00000000 08:01 1 /too/long",
        "1000-2000 r-xp 00000000",
    ],
)
def test_a_damaged_line_is_counted(line: str) -> None:
    modules = ModuleMap([line + "\n3000-4000 r-xp 00000000 08:01 1 /good\n"], 0)
    assert modules.damaged_lines == 1
    assert modules.locate(0x3000) == ("/good", 0)


def test_our_own_map() -> None:
    mappings, damaged = parse_maps(Path("/proc/self/maps").read_text(), 0)
    assert damaged == 0
    assert any(mapping.path == "[stack]" for mapping in mappings)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=80), max_size=6), st.integers(0, 1 << 48))
def test_any_text_can_be_read(texts: list[str], address: int) -> None:
    ModuleMap(texts, 0).locate(address)


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.sampled_from("abc")), max_size=6)


@given(st.lists(spans, max_size=4))
def test_the_overlay_is_what_painting_page_by_page_gives(copies: list[list[tuple[int, int, str]]]) -> None:
    painted: dict[int, Mapping] = {}
    texts = []
    for copy in copies:
        lines = []
        for start, length, name in copy:
            mapping = Mapping(start * 4096, (start + length) * 4096, 0, f"/{name}", 1)
            painted.update(dict.fromkeys(range(start, start + length), mapping))
            lines.append(f"{mapping.start:x}-{mapping.end:x} r-xp 00000000 08:01 1 {mapping.path}\n")
        texts.append("".join(lines))
    modules = ModuleMap(texts, 0)
    for page in range(60):
        for address in (page * 4096, page * 4096 + 4095):
            assert modules.find(address) == painted.get(page)
    addresses = [page * 4096 + 17 for page in range(59, -1, -1)]
    found = list(modules.find_all(np.array(addresses, np.uint64)))
    assert {addresses[at] // 4096: mapping for mapping, positions in found for at in positions} == {
        page: painted.get(page) for page in range(60)
    }
