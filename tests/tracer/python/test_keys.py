"""Random keys: what a subscript is said to touch is what NumPy itself selects from an array of positions."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from python_runs import trace

SHAPES = [(40,), (7, 9), (5, 1, 6), (3, 4, 2, 5)]
PER_SHAPE = 40


def random_item(rng: np.random.Generator, length: int, fancy: tuple[int, ...]) -> object:
    choice = int(rng.integers(0, 6))
    if choice == 0:
        return int(rng.integers(-length, length))
    if choice == 1:
        bounds = [None if rng.random() < 0.5 else int(rng.integers(-length, length + 1)) for _ in range(2)]
        return slice(*bounds, int(rng.choice([-2, -1, 1, 3])))
    if choice == 2:
        return np.int32(rng.integers(-length, length))
    if choice == 3:
        return [int(i) for i in rng.integers(-length, length, fancy[-1])]
    return rng.integers(-length, length, fancy).astype(str(rng.choice(["i8", "i4", "i2"])))


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> object:
    if rng.random() < 0.15:
        return rng.random(shape) < 0.4
    fancy = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 3))))
    items: list[object] = []
    axis, used = 0, int(rng.integers(1, len(shape) + 1))
    while axis < used:
        mask_nd = int(rng.integers(1, used - axis + 1))
        if rng.random() < 0.08 and not any(isinstance(i, np.ndarray | list) for i in items):
            items.append(rng.random(shape[axis : axis + mask_nd]) < 0.6)
            axis, fancy = axis + mask_nd, (1,)
        else:
            items.append(random_item(rng, shape[axis], fancy))
            axis += 1
        if rng.random() < 0.1:
            items.append(None)
    if used < len(shape) and rng.random() < 0.4:
        items.insert(int(rng.integers(0, len(items) + 1)), Ellipsis)
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def valid_keys(rng: np.random.Generator, shape: tuple[int, ...]) -> list[tuple[object, np.ndarray]]:
    positions = np.arange(np.prod(shape)).reshape(shape)
    found: list[tuple[object, np.ndarray]] = []
    while len(found) < PER_SHAPE:
        key = random_key(rng, shape)
        try:
            selected = positions[key]  # type: ignore[index]
        except IndexError:
            continue
        if np.size(selected):
            found.append((key, np.asarray(selected)))
    return found


@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_random_keys(tmp_path: Path, layout: str) -> None:
    rng = np.random.default_rng(len(layout))
    cases = [(shape, key, selected) for shape in SHAPES for key, selected in valid_keys(rng, shape)]
    with (tmp_path / "keys.pickle").open("wb") as file:
        pickle.dump([(shape, key) for shape, key, _ in cases], file)
    lines = [
        "import json, pickle, sys",
        "import numpy as np",
        f"cases = pickle.load(open({str(tmp_path / 'keys.pickle')!r}, 'rb'))",
        "bases, arrays = [], []",
        "for shape, key in cases:",
        f"    a = np.zeros(shape[:-1] + (2 * shape[-1],))[..., ::2] if {layout!r} == 'strided' else"
        f" np.zeros(shape, order={layout[0]!r})",
        "    arrays.append(a); bases.append(a.__array_interface__['data'][0])",
        "keys = [key for _, key in cases]",
    ]
    first = len(lines) + 1
    for number in range(len(cases)):
        lines += [f"got = arrays[{number}][keys[{number}]]", f"arrays[{number}][keys[{number}]] = 1.0"]
    lines += [f"json.dump(bases, open({str(tmp_path / 'bases.json')!r}, 'w'))"]
    run = trace(tmp_path, "\n".join(lines) + "\n")
    assert run.recording.unseen_calls == 0
    bases = json.loads((tmp_path / "bases.json").read_text())
    for number, (shape, key, selected) in enumerate(cases):
        array = (
            np.zeros((*shape[:-1], 2 * shape[-1]))[..., ::2] if layout == "strided" else np.zeros(shape, order=layout)
        )
        extent = 8 + sum((n - 1) * stride for n, stride in zip(shape, array.strides, strict=True))
        offsets = [
            sum(i * s for i, s in zip(np.unravel_index(p, shape), array.strides, strict=True)) for p in selected.flat
        ]
        expected = (len(offsets), bases[number] + min(offsets), bases[number] + max(offsets) + 8)
        for is_store, line in ((False, first + 2 * number), (True, first + 2 * number + 1)):
            touched = [
                (o.executions, o.first, o.last_exclusive)
                for o in run.operations(line)
                if o.is_store == is_store and bases[number] <= o.first < bases[number] + extent
                if o.size_bytes == 8 and (o.array_operation.endswith("(picked)") or not o.array_operation.endswith(")"))
            ]
            is_view = not is_store and np.shares_memory(array, array[key])  # type: ignore[index]
            assert touched == ([] if is_view else [expected]), (shape, key)
