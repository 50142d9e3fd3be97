"""Flame graphs of execution trees: as SVG, and as the folded stacks that flame graph tools read.

After B. Gregg, "The Flame Graph", Communications of the ACM 59(6), 2016; roots are at the top here.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.tree_records import ExecutionTree

Weights = npt.NDArray[np.float64]

_WIDTH, _ROW, _MARGIN, _HEAD = 1200, 17, 10, 40
_LETTER = 6.6
_LEAST_WIDTH = 0.4
"""Width of a box, in pixels: what is narrower is left out, with all below it."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")


def folded_stacks(tree: ExecutionTree, names: Sequence[str], own: Weights, title: str) -> str:
    """A line for each stack with weight of its own: the names from the root to it, with semicolons, and the weight.

    `names` and `own` are those of each node; `title` is the first name of all stacks.
    """
    stacks: list[str] = []
    weights: dict[str, int] = {}
    for node, parent in enumerate(tree.parent.tolist()):
        above = stacks[parent] if parent >= 0 else "foretrace:" + _frame(title)
        stacks.append(f"{above};{_frame(names[node])}")
        weights[stacks[-1]] = weights.get(stacks[-1], 0) + round(float(own[node]))
    return "".join(f"{stack} {weight}\n" for stack, weight in weights.items() if weight)


def _frame(name: str) -> str:
    return _CONTROL.sub("?", name).replace(";", ":")


def flame_graph(
    tree: ExecutionTree, names: Sequence[str], inclusive: Weights, title: str, shown: Callable[[float], str]
) -> str:
    """An SVG picture: a box for each node, as wide as its share, below its parent's. `shown` is a weight in words."""
    total = float(sum(inclusive[node] for node, parent in enumerate(tree.parent.tolist()) if parent < 0))
    scale = (_WIDTH - 2 * _MARGIN) / total if total > 0 else 0.0
    below = tree.children()
    boxes: list[str] = []
    deepest = 0
    left = float(_MARGIN)
    pending: list[tuple[int, int, float]] = []
    for node in reversed([node for node, parent in enumerate(tree.parent.tolist()) if parent < 0]):
        pending.append((node, 0, 0.0))
    roots = left
    while pending:
        node, depth, start = pending.pop()
        width = float(inclusive[node]) * scale
        if depth == 0:
            start, roots = roots, roots + width
        if width < _LEAST_WIDTH:
            continue
        deepest = max(deepest, depth)
        boxes.append(_box(names[node], start, depth, width, float(inclusive[node]), total, shown))
        for child in below[node]:
            pending.append((child, depth + 1, start))
            start += float(inclusive[child]) * scale
    height = _HEAD + (deepest + 1) * _ROW + _MARGIN
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="11">',
            '<metadata><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
            'xmlns:cc="http://creativecommons.org/ns#" xmlns:dc="http://purl.org/dc/elements/1.1/"><cc:Work>'
            "<dc:creator><cc:Agent><dc:title>foretrace</dc:title></cc:Agent></dc:creator></cc:Work></rdf:RDF></metadata>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{_MARGIN}" y="20" font-size="14">{escape(_CONTROL.sub("?", title))}</text>',
            *boxes,
            "</svg>\n",
        ]
    )


def _box(
    name: str, left: float, depth: int, width: float, weight: float, total: float, shown: Callable[[float], str]
) -> str:
    name = _CONTROL.sub("?", name)
    top = _HEAD + depth * _ROW
    hue = 10 + zlib.crc32(name.encode("utf-8", "replace")) % 45
    letters = int((width - 4) / _LETTER)
    label = name if len(name) <= letters else name[: letters - 1] + "…" if letters > 2 else ""
    share = weight / total if total else 0.0
    text = (
        f"<text x={quoteattr(f'{left + 2:.1f}')} y={quoteattr(str(top + 12))}>{escape(label)}</text>" if label else ""
    )
    return (
        f"<g><title>{escape(name)}: {escape(shown(weight))}, {share:.2%}</title>"
        f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_ROW - 1}" rx="1" fill="hsl({hue},85%,68%)"/>'
        f"{text}</g>"
    )
