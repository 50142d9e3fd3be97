"""Random programs of the toy instruction set."""

from __future__ import annotations

from analysis_toy import FLOWS, Program
from hypothesis import strategies as st


@st.composite
def programs(draw: st.DrawFn) -> Program:
    length = draw(st.integers(2, 40))
    operations = draw(st.lists(st.integers(0, 6), min_size=length, max_size=length))
    return [(operation, draw(st.integers(0, length - 1)) if operation in FLOWS else 0) for operation in operations]
