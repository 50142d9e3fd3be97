"""What triage makes of the data flow of whole programs, and of what it does not tell."""

import subprocess
from dataclasses import replace

from offload_samples import gpu, nest, with_flow
from replay_samples import measured_host
from traces import trace_binary

from foretrace.replay.offload.devices import bounded_flow
from foretrace.replay.offload.triage import triage
from foretrace.tracer.signature.data_flow_records import OUTSIDE

DEVICE = gpu(shared_memory=False, to_device_bytes_per_s=1e10, from_device_bytes_per_s=1e10, transfer_latency_s=1e-5)


STREAM = r"""
#include <cstdio>
#include <iostream>
#include <vector>
#define N 20000
double *a, *b, *c;
static void init() { for (int i = 0; i < N; i++) { a[i] = 0.1; b[i] = 0.2; c[i] = 0; } }
static void triad() { for (int i = 0; i < N; i++) a[i] = b[i] + 0.4 * c[i]; }
static void copy() { for (int i = 0; i < N; i++) c[i] = a[i]; }
static double dot() { double sum = 0; for (int i = 0; i < N; i++) sum += a[i] * b[i]; return sum; }
int main() {
    a = new double[N]; b = new double[N]; c = new double[N];
    init();
    std::vector<double> sums;
    for (int round = 0; round < 20; round++) { copy(); triad(); sums.push_back(dot()); }
    for (double sum : sums) std::cout << "dot " << sum << std::endl;
    std::printf("%g\n", a[7] + c[9]);
    return 0;
}
"""


def test_of_a_program_that_prints_only_results_come_back(tmp_path):
    """Arrays that live on the device stay there: 20 sums of 8 bytes come back, and what the host looks at."""
    (tmp_path / "stream.cpp").write_text(STREAM)
    command = ["g++", "-O1", "-g", "-fno-inline", "-o", tmp_path / "stream", tmp_path / "stream.cpp"]
    subprocess.run(command, check=True)
    signature = trace_binary([str(tmp_path / "stream")]).signature
    assert signature.data_flow.merged_bytes == 0
    found = triage(signature, measured_host(), DEVICE)
    ported = {one.place.line for one in found.instances if one.offload}
    assert {8, 9, 10} <= ported
    assert found.program.from_device_bytes < 20 * 8 + 4096
    assert found.program.to_device_bytes < 4096


def test_what_had_too_many_readers_widens_the_interval():
    """All of a flow may have been read by fewer than it seems: none of it may have to move."""
    tree, around, loop = nest(inner=1 << 22, flops=0)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 << 22), (loop, [around], 8 << 22)])
    merged = replace(signature, data_flow=replace(signature.data_flow, merged_bytes=float(8 << 22)))
    plain, wide = (triage(one, measured_host(), DEVICE) for one in (signature, merged))
    assert not any("too many different sets" in text for text in plain.warnings)
    assert any("50% of the data flow had too many different sets" in text for text in wide.warnings)
    assert wide.program.after_low_s < plain.program.after_low_s
    assert wide.program.after_high_s == plain.program.after_high_s


def test_what_is_left_out_of_a_data_flow_widens_the_interval(monkeypatch):
    tree, around, loop = nest(inner=1 << 22, flops=0)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 << 22), (loop, [around], 1 << 22)])
    plain = triage(signature, measured_host(), DEVICE)
    monkeypatch.setattr(bounded_flow, "MOST_PAIRS", 1)
    wide = triage(signature, measured_host(), DEVICE)
    assert any("11.1% of the data flow (4 MiB)" in text for text in wide.warnings)
    assert wide.program.after_high_s > plain.program.after_low_s
    assert wide.program.after_high_s - wide.program.after_low_s >= (1 << 22) / 1e10
