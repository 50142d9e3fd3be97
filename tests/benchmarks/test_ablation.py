"""The ablation: what switches sub-models off, and what it concludes from errors."""

import re

import pytest
from core_samples import instruction, loop_of, machine

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness.suite import HELD_BACK
from foretrace.benchmarks.validation.ablation import Ablation, Worth, run_without, tables
from foretrace.benchmarks.validation.submodels import SUBMODELS, named
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.prediction.predict import predict
from foretrace.replay.workload.workload import Workload


def time_s(signature, profile, off=""):
    return float(run_without(Workload.of(signature), profile, named(off)).times.time_s[TYPICAL].sum())


def test_with_nothing_switched_off_it_is_the_prediction():
    signature = loop_of(instruction("fp_add", "x1 x2", "x1"), instruction("move", writes="r1"))
    assert time_s(signature, machine()) == predict(signature, machine()).time_s


@pytest.mark.parametrize("one", SUBMODELS, ids=lambda one: one.name)
def test_every_submodel_can_be_switched_off_and_leaves_the_model_as_it_was(one):
    load = instruction("move", "", "r1", "r2 r3", load_operation=0, scaled=True)
    signature = loop_of(load, instruction("int_alu", "r1 r4", "r4 flags"), accesses=[{}])
    before = time_s(signature, machine())
    assert time_s(signature, machine(), one.name) > 0
    assert time_s(signature, machine()) == before


@pytest.mark.parametrize(
    ("name", "code", "figures"),
    [
        ("crossing latency", [instruction("fp_convert", "rax", "xmm0"), instruction("fp_convert", "xmm0", "rax")], {}),
        ("window", [instruction("fp_div", "xmm1", "xmm1"), *[instruction("move", writes="rax")] * 50],
         {"window_instructions": 16.0}),
    ],
)  # fmt: skip
def test_what_a_submodel_adds_is_gone_without_it(name, code, figures):
    accesses = [{}] if any(one.load_operation is not None for one in code) else []
    signature = loop_of(*code, accesses=accesses, seen_lines=True)
    profile = machine(**figures)
    assert time_s(signature, profile, name) < 0.99 * time_s(signature, profile)


def test_names_are_unique_and_wrong_ones_are_refused():
    assert len({one.name for one in SUBMODELS}) == len(SUBMODELS)
    with pytest.raises(EngineError, match="'tlb' is no sub-model"):
        named("decoders, tlb")


def test_the_worth_of_a_submodel():
    keys = [("a", "x"), ("b", "x"), ("a", "y"), ("a", "z")]
    with_it = dict(zip(keys, (0.1, -0.1, 0.2, -0.3), strict=True))
    without = dict(zip(keys, (0.5, -0.3, 0.25, -0.25), strict=True))
    found = Worth.of(with_it, without, keys)
    assert found.gain == pytest.approx((0.4 + 0.2 + 0.05 - 0.05) / 4)
    assert found.others_gain == pytest.approx((0.05 - 0.05) / 4), "without x, on both machines"
    assert (found.worst_with, found.worst_without) == (0.3, 0.5)
    assert Worth.of(with_it, without, []) is None


def test_the_table_tells_the_halves_apart():
    held = sorted(HELD_BACK)[0]
    errors = {"": {("m", held): 0.1, ("m", "triad"): 0.2}}
    errors |= {one.name: {("m", held): -0.15, ("m", "triad"): 0.2} for one in SUBMODELS}
    text = "\n".join(table.as_markdown() for table in tables(Ablation((), errors)))
    assert re.search(r"^\| held back, m \| 1 \| 10.0% \| \+10% ", text, re.MULTILINE)
    assert re.search(r"^\| decoders \|.* \| yes \| \+5.00 \| \+0.00 \| 15% \| \+0.00 ", text, re.MULTILINE)
    put_back = tables(Ablation(("decoders",), errors))[1].as_markdown()
    assert re.search(r"^\| decoders \|.* \| no \| -5.00 ", put_back, re.MULTILINE), "the model is the one without"
