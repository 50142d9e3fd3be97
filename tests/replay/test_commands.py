"""`foretrace predict` and `foretrace triage`: their JSON faces, what people see, and errors."""

import json
from dataclasses import replace

import msgspec
import pytest
from command_line import run
from replay_samples import Program, gather_into, gather_program

from foretrace.base.errors import PredictionError, ProfileError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind
from foretrace.profiles.profile_file import write_profile
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import SimulatedHierarchy

HOSTILE = "\x1b]0;owned\x07[bold red]x[/]\n\u202eevil.c"
HOSTS = [name for name in names() if find(name).kind is MachineKind.HOST]


def write(signature, path):
    """Write a signature that has the caches of all shipped hosts simulated, with the misses of the sample caches."""
    (sample,) = signature.hierarchies
    simulated = []
    for name in HOSTS:
        hierarchy = hierarchy_of(find(name)).hierarchy
        misses = sample.misses[:, [min(i, 1) for i in range(len(hierarchy.levels))]]
        simulated.append(SimulatedHierarchy(hierarchy, misses))
    write_signature(replace(signature, hierarchies=tuple(simulated)), path)
    return path


@pytest.fixture
def gather_sig(tmp_path):
    return write(gather_program(1 << 20), tmp_path / "gather.sig")


def test_predict_json(gather_sig):
    document = json.loads(run("predict", gather_sig, "--all", "--json").output)
    assert document["schema"] == "foretrace.predict/1"
    predictions = document["predictions"]
    assert {p["machine"] for p in predictions} == set(HOSTS)
    assert [p["time_s"] for p in predictions] == sorted(p["time_s"] for p in predictions)
    for prediction in predictions:
        assert {
            "machine", "time_s", "low_s", "high_s", "bound_by", "hit_rates", "assumptions", "loops", "complete"
        } <= set(prediction)  # fmt: skip
        assert prediction["low_s"] <= prediction["time_s"] <= prediction["high_s"]
        assert prediction["hit_rates"]["source"] == "simulated"
        assert all(isinstance(assumption, str) for assumption in prediction["assumptions"])
        (loop,) = prediction["loops"]
        assert {"file", "line", "function", "time_s", "share", "bound_by"} <= set(loop)
        assert (loop["function"], loop["file"], loop["line"]) == ("gather", "program.c", 1)
        assert loop["share"] == pytest.approx(1)


def test_triage_json(gather_sig):
    arguments = ("--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga", "--json")
    document = json.loads(run("triage", gather_sig, *arguments).output)
    assert document["schema"] == "foretrace.triage/1"
    assert {"host_s", "after_s", "speedup", "loops", "loops_for_95_percent"} <= set(document["program"])
    (instance,) = document["instances"]
    assert {
        "file", "line", "function", "idiom", "range_bytes", "host_s", "accelerator_s", "offload", "reason", "refs",
        "gain_s", "break_even_bytes",
    } <= set(instance)  # fmt: skip
    assert instance["offload"] is True
    program = document["program"]  # pages are touched first either way
    assert program["host_s"] - program["after_s"] == pytest.approx(instance["host_s"] - instance["accelerator_s"])


GPU = ("--host", "epyc-9654", "--accelerator", "h200-sxm-141gb")


def test_triage_of_a_general_accelerator_has_keys_of_its_own(gather_sig):
    document = json.loads(run("triage", gather_sig, *GPU, "--json").output)
    assert {"speedup_low", "speedup_high", "to_device_bytes", "transfers", "launches"} <= set(document["program"])
    assert [policy["policy"] for policy in document["policies"]] == ["never", "always", "threshold", "greedy", "plan"]
    (instance,) = document["instances"]
    assert {"answer", "kind", "bound_by", "parallel", "flip", "explanation", "break_even_launch_s"} <= set(instance)
    assert instance["accelerator_low_s"] <= instance["accelerator_s"] <= instance["accelerator_high_s"]


def test_people_see_the_plan_and_the_arithmetic_of_a_loop(gather_sig):
    output = run("triage", gather_sig, *GPU, "--host-cores", "all").output
    assert "times as fast" in output
    assert "96 cores" in output
    assert "names no loop" in run("triage", gather_sig, *GPU, "--explain", " ").output
    explained = run("triage", gather_sig, *GPU, "--explain", "program.c:1").output
    assert "launches: 1 x" in explained
    assert "<- the kernel's time" in explained


def test_several_accelerators_are_compared(gather_sig):
    pair = (*GPU, "--accelerator", "convey-hc1-fpga")
    document = json.loads(run("triage", gather_sig, *pair, "--json").output)
    assert [one["accelerator"] for one in document["accelerators"]] == ["h200-sxm-141gb", "convey-hc1-fpga"]
    assert set(document["matrix"][0]["accelerator_s"]) == {"h200-sxm-141gb", "convey-hc1-fpga"}
    assert "The best is" in run("triage", gather_sig, *pair).output


def test_people_see_machines_fastest_first_and_the_hot_loop(gather_sig):
    output = run("predict", gather_sig, "--all").output
    assert all(name in output for name in HOSTS)
    assert "program.c:1" in output
    assert "simulated" in output
    assert "assumed" in output


def test_assumptions_are_a_line_or_all_of_them(gather_sig):
    for verb in (("triage", gather_sig, *GPU), ("replay", gather_sig, "--machine", "epyc-9654")):
        few, all_of_them = run(*verb).output, run(*verb, "--assumptions").output
        assert "figures are in no profile and assumed; --assumptions lists them" in few
        assert "--assumptions" not in all_of_them
        assert len(all_of_them.splitlines()) > len(few.splitlines()) + 3


def test_people_see_the_decision_and_its_reason(gather_sig):
    output = run("triage", gather_sig, "--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga").output
    assert "pays while a launch costs less than" in output
    assert "Porting the only gather/scatter loop takes the program from" in output


def test_top_limits_what_is_shown_and_says_so(tmp_path):
    program = Program()
    for number in range(5):
        block = program.loop(1000, function=f"loop_{number}")
        gather_into(program, block, 1000, 1 << 20, number << 44)
    path = write(program.signature(), tmp_path / "many.sig")
    pair = ("--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga")
    output = run("triage", path, *pair, "--top", "2").output
    assert "3 loops of less gain not shown" in output
    assert sum(f"loop_{n}" in output for n in range(5)) == 2
    assert len(json.loads(run("triage", path, *pair, "--json").output)["instances"]) == 5
    output = run("predict", path, "--machine", "jaguar-xt4", "--top", "1").output
    assert sum(f"loop_{n}" in output for n in range(5)) == 1


def test_program_without_gathers_is_told_so(tmp_path):
    program = Program()
    program.loop(1000, instructions=5)
    path = write(program.signature(), tmp_path / "plain.sig")
    result = run("triage", path, "--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga")
    assert "No gather/scatter loop was found" in result.output
    assert result.exit_code == 0


def test_a_partial_profile_is_told_of(gather_sig, tmp_path):
    interrupted = tmp_path / "interrupted.toml"
    partial = msgspec.structs.replace(find("jaguar-xt4"), name="interrupted", partial=True)
    write_profile(partial, interrupted)
    assert (
        "warning: the profile of interrupted is partial"
        in run("predict", gather_sig, "--all", "--machine", interrupted).output
    )
    (alone,) = json.loads(run("predict", gather_sig, "--machine", interrupted, "--json").output)["predictions"]
    assert any("partial" in warning for warning in alone["warnings"])
    (whole,) = json.loads(run("predict", gather_sig, "--machine", "jaguar-xt4", "--json").output)["predictions"]
    assert not any("partial" in warning for warning in whole["warnings"])


def test_incomplete_run_is_marked_in_both_faces(tmp_path):
    signature = gather_program(1 << 20)
    incomplete = msgspec.structs.replace(signature.provenance, complete=False, incomplete_reason="SIGINT")
    cut = replace(signature, provenance=incomplete)
    path = write(cut, tmp_path / "cut.sig")
    assert "warning: the signature is incomplete (SIGINT)" in run("predict", path, "--all").output
    assert json.loads(run("predict", path, "--all", "--json").output)["predictions"][0]["complete"] is False
    pair = ("--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga")
    assert "warning: the signature is incomplete (SIGINT)" in run("triage", path, *pair).output


def test_text_from_a_signature_cannot_act_on_a_terminal(tmp_path):
    program = Program()
    block = program.loop(1000, function=HOSTILE, file=HOSTILE)
    gather_into(program, block, 1000, 1 << 20)
    signature = program.signature(complete=False, incomplete_reason=HOSTILE)
    path = write(signature, tmp_path / "hostile.sig")
    pair = ("--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga")
    for arguments in (("predict", path, "--all"), ("triage", path, *pair)):
        for face in ((), ("--json",)):
            output = run(*arguments, *face).output
            assert not {"\x1b", "\x07", "\u202e"} & set(output)
            assert "[bold red]x[/]" in output  # shown as it is, not taken for markup


def test_machines_are_predicted_at_another_clock(gather_sig):
    document = json.loads(run("predict", gather_sig, "--machine", "jaguar-xt4", "--clock", "4.2", "--json").output)
    (faster,) = document["predictions"]
    (usual,) = json.loads(run("predict", gather_sig, "--machine", "jaguar-xt4", "--json").output)["predictions"]
    assert faster["machine"] == "jaguar-xt4@4.2GHz"
    assert faster["title"] == usual["title"] + " at 4.2 GHz"
    assert usual["time_s"] / 2 < faster["time_s"] < usual["time_s"], "memory stays as it is"


@pytest.mark.parametrize("clock", ["0", "nan", "-1", "1e9", "fast"])
def test_a_clock_that_cannot_be_is_a_usage_error(gather_sig, clock):
    result = run("predict", gather_sig, "--machine", "jaguar-xt4", "--clock", clock)
    assert result.exit_code == 2
    assert "Invalid value for '--clock'" in result.output


def test_a_machine_without_a_clock_is_refused_another_one_and_listed_among_all(gather_sig, tmp_path):
    profile = find("jaguar-xt4")
    path = tmp_path / "clockless.toml"
    sources = {field: source for field, source in profile.core.source.items() if field != "clock_hz"}
    core = msgspec.structs.replace(profile.core, clock_hz=None, source=sources)
    write_profile(msgspec.structs.replace(profile, name="clockless", core=core), path)
    with pytest.raises(ProfileError, match=r"clockless: core\.clock_hz is missing"):
        run("predict", gather_sig, "--machine", path, "--clock", "3")
    document = json.loads(run("predict", gather_sig, "--machine", path, "--all", "--clock", "3", "--json").output)
    assert document["predictions"]
    assert "core.clock_hz is missing" in {r["machine"]: r["reason"] for r in document["refused"]}["clockless"]


def test_the_same_machine_twice_is_predicted_once(gather_sig):
    arguments = ("--machine", "jaguar-xt4", "--machine", "jaguar-xt4", "--json")
    assert len(json.loads(run("predict", gather_sig, *arguments).output)["predictions"]) == 1


def test_unknown_machine_gets_a_suggestion(gather_sig):
    with pytest.raises(ProfileError, match="jaguar-xt4"):
        run("predict", gather_sig, "--machine", "jagaur-xt4")


def test_no_machine_is_a_usage_error_that_helps(gather_sig):
    result = run("predict", gather_sig)
    assert result.exit_code == 2
    assert "--all" in result.output
    assert "foretrace machines" in result.output


def test_host_and_accelerator_exchanged(gather_sig):
    with pytest.raises(PredictionError, match="jaguar-xt4: is a host, not an accelerator"):
        run("triage", gather_sig, "--host", "convey-hc1-fpga", "--accelerator", "jaguar-xt4")
    with pytest.raises(PredictionError, match="convey-hc1-fpga: is an accelerator"):
        run("predict", gather_sig, "--machine", "convey-hc1-fpga")


def test_caches_that_nobody_simulated_are_refused_in_words(tmp_path):
    path = tmp_path / "bare.sig"
    write_signature(gather_program(1 << 20), path)
    with pytest.raises(PredictionError, match="no reuse distances"):
        run("predict", path, "--all")


@pytest.mark.parametrize("verb", ["predict", "triage"])
def test_help_has_an_example(verb):
    assert "Example" in run(verb, "--help").output
