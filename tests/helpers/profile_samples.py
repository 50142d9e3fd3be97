"""A machine profile that is good, to be spoilt."""

GOOD = """
schema = "foretrace.profile/1"
name = "box"
title = "A box"
kind = "host"
date = "2011"

[sources.doc]
kind = "vendor"
citation = "Box manual"
date = "2011-05-31"

[core]
clock_hz = 2.0e9
source = { clock_hz = "doc" }

[[caches]]
name = "L1"
size_bytes = 32768
ways = 8
line_bytes = 64
latency_s = 1e-9
source = { size_bytes = "doc", ways = "doc", line_bytes = "doc", latency_s = "doc" }

[[caches]]
name = "L2"
size_bytes = 1048576
line_bytes = 64
latency_s = 5e-9
source = { size_bytes = "doc", line_bytes = "doc", latency_s = "doc" }

[memory]
latency_s = 90e-9
source = { latency_s = "doc" }

[[bandwidth]]
working_set_bytes = 4096
pattern = "sequential"
access_bytes = 8
bandwidth_bytes_per_s = 1e10
source = "doc"

[[latency]]
working_set_bytes = 4096
latency_s = 1e-9
source = "doc"

[[gather_scatter]]
operations = ["gather"]
source = "doc"

[[gather_scatter.pieces]]
from_bytes = 4096
to_bytes = 8192
intercept_bytes_per_s = 2e9
slope_bytes_per_s_per_byte = 0.0
source = "doc"

[[gather_scatter.pieces]]
from_bytes = 8192
intercept_bytes_per_s = 1e9
slope_bytes_per_s_per_byte = 0.0
source = "doc"
"""
