"""Platforms: nodes, their speed and the network between them, from a description as SimGrid reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.parsers import expat

from foretrace.base.errors import TraceFileError
from foretrace.replay.engine.network import Crossbar, FatTree, Network, Regime, Topology, Torus

MOST_BYTES = 16 << 20
MOST_NODES = 1 << 20
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_TIMES_S = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12, "m": 60.0, "h": 3600.0}
_READ = {
    "id", "prefix", "suffix", "radical", "speed", "core", "bw", "lat", "bb_bw", "bb_lat", "topology", "topo_parameters",
    "loopback_bw", "loopback_lat", "sharing_policy", "bb_sharing_policy",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Platform:
    """Nodes that are all alike, and their network.

    Attributes:
        name: of the cluster.
        cores: of each node.
        flops_per_s: of a core.
        network: between the nodes.
    """

    name: str
    cores: int
    flops_per_s: float
    network: Network

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.network.topology.nodes


@dataclass(frozen=True, slots=True)
class _Model:
    """A network model of SimGrid: factors by size, and what shares of a full link depend on."""

    regimes: tuple[Regime, ...]
    weight_bytes: float


def _regimes(latency: str, bandwidth: str) -> tuple[Regime, ...]:
    """Factors by size, from lists of `size:factor` with the same sizes."""
    found = [
        Regime(float(at), float(slower), float(share))
        for (at, slower), (_, share) in zip(
            *([part.split(":") for part in text.split(";")] for text in (latency, bandwidth)), strict=True
        )
    ]
    return tuple(sorted(found, key=lambda regime: regime.above_bytes))


MODELS = {
    "CM02": _Model((), 0.0),
    "LV08": _Model((Regime(0, 13.01, 0.97),), 20537.0),
    "SMPI": _Model(
        _regimes(
            "65472:11.6436;15424:3.48845;9376:2.59299;5776:2.18796;3484:1.88101;1426:1.61075;732:1.9503;257:1.95341;"
            "0:2.01467",
            "65472:0.940694;15424:0.697866;9376:0.58729;5776:1.08739;3484:0.77493;1426:0.608902;732:0.341987;"
            "257:0.338112;0:0.812084",
        ),
        8775.0,
    ),
}
"""SimGrid's network models, with the figures of its network_cm02.cpp (version 3.32)."""
ENVELOPE_BYTES, WINDOW_BYTES, BACK_SHARE = 16, 4194304, 0.05
LOOPBACK_LATENCY_S, LOOPBACK_BYTES_PER_S = 15e-6, 498e6


def read_platform(path: Path, model: str = "SMPI") -> Platform:
    """Read a platform: a file with one `<cluster>`, under one of `MODELS`.

    Raises:
        TraceFileError: the file cannot be read, or describes what is not supported.
    """
    if model not in MODELS:
        raise TraceFileError(f"{path}: there is no model {model}; there are {', '.join(MODELS)}")
    parts = [(tag, given) for tag, given in _elements(path) if tag in ("cluster", "host", "link", "route")]
    if [tag for tag, _ in parts] != ["cluster"]:
        what = ", ".join(sorted({f"<{tag}>" for tag, _ in parts})) or "nothing of that kind"
        raise TraceFileError(f"{path}: a platform is one <cluster>; this file has {len(parts)} of {what}")
    return _cluster(path, parts[0][1], MODELS[model])


def _elements(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The elements of a file with their attributes, in order."""
    found: list[tuple[str, dict[str, str]]] = []
    parser = expat.ParserCreate()

    def begin(tag: str, given: dict[str, str]) -> None:
        found.append((tag, given))

    def refuse(*_: object) -> None:
        raise TraceFileError(f"{path}: defines entities, which a platform has no need of")

    parser.StartElementHandler = begin
    parser.EntityDeclHandler = refuse
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TraceFileError(f"{path}: longer than the {MOST_BYTES} bytes that a platform may have")
        parser.Parse(path.read_bytes(), True)
    except OSError as error:
        raise TraceFileError(f"{path}: {error.strerror}") from None
    except expat.ExpatError as error:
        raise TraceFileError(f"{path}: no XML: {error}") from None
    return found


def _cluster(path: Path, given: Mapping[str, str], model: _Model) -> Platform:
    unknown = sorted(given.keys() - _READ)
    if unknown:
        raise TraceFileError(f"{path}: {', '.join(unknown)} of a cluster: not supported")
    for name in ("radical", "speed", "bw", "lat"):
        if name not in given:
            raise TraceFileError(f"{path}: the cluster has no {name}")
    if given.get("sharing_policy", "SPLITDUPLEX") not in ("SPLITDUPLEX", "FULLDUPLEX"):
        raise TraceFileError(f"{path}: sharing_policy {given['sharing_policy']}: only SPLITDUPLEX is supported")
    if given.get("bb_sharing_policy", "SHARED") != "SHARED":
        raise TraceFileError(f"{path}: bb_sharing_policy {given['bb_sharing_policy']}: only SHARED is supported")
    network = Network(
        _topology(path, given),
        link_latency_s=_time_s(path, "lat", given["lat"]),
        link_bytes_per_s=_bytes_per_s(path, "bw", given["bw"]),
        own_latency_s=_time_s(path, "loopback_lat", given.get("loopback_lat", f"{LOOPBACK_LATENCY_S}s")),
        own_bytes_per_s=_bytes_per_s(path, "loopback_bw", given.get("loopback_bw", f"{LOOPBACK_BYTES_PER_S}Bps")),
        envelope_bytes=ENVELOPE_BYTES,
        window_bytes=WINDOW_BYTES,
        weight_bytes=model.weight_bytes,
        back_share=BACK_SHARE,
        regimes=model.regimes,
    )
    return Platform(
        name=given.get("id", "cluster"),
        cores=_integers(path, "core", given.get("core", "1"))[0],
        flops_per_s=_scaled(path, "speed", given["speed"], "f"),
        network=network,
    )


def _topology(path: Path, given: Mapping[str, str]) -> Topology:
    nodes = _nodes(path, given["radical"])
    kind, parameters = given.get("topology", "FLAT"), given.get("topo_parameters", "")
    topology: Topology
    match kind:
        case "FLAT":
            backbone = given.get("bb_bw")
            topology = Crossbar(
                nodes,
                None if backbone is None else _bytes_per_s(path, "bb_bw", backbone),
                _time_s(path, "bb_lat", given.get("bb_lat", "0s")),
            )
        case "TORUS":
            topology = Torus(_integers(path, "topo_parameters", parameters))
        case "FAT_TREE":
            levels, *parts = parameters.split(";")
            sizes = [_integers(path, "topo_parameters", part) for part in parts]
            if len(sizes) != 3 or any(str(len(part)) != levels.strip() for part in sizes):
                raise TraceFileError(f"{path}: topo_parameters {parameters!r} of a fat tree: LEVELS;DOWN;UP;PARALLEL")
            topology = FatTree(*sizes)
        case _:
            raise TraceFileError(f"{path}: topology {kind}: only FLAT, TORUS and FAT_TREE are supported")
    if topology.nodes != nodes:
        raise TraceFileError(f"{path}: the topology has {topology.nodes} nodes, the cluster {nodes}")
    return topology


def _nodes(path: Path, radical: str) -> int:
    """Number of nodes of a list like "0-15,20"."""
    nodes = 0
    for part in radical.split(","):
        found = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if not found:
            raise TraceFileError(f"{path}: radical {radical!r} is no list of numbers")
        nodes += int(found[2] or found[1]) - int(found[1]) + 1
    if not 1 <= nodes <= MOST_NODES:
        raise TraceFileError(f"{path}: {nodes} nodes, must be 1 to {MOST_NODES}")
    return nodes


def _integers(path: Path, name: str, text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d{0,6}", number) for number in numbers):
        raise TraceFileError(f"{path}: {name} {text!r} is no list of positive numbers")
    return tuple(int(number) for number in numbers)


def _scaled(path: Path, name: str, text: str, unit: str) -> float:
    """A number with a scale and a unit: "1.25GBps", "1Gf"."""
    found = re.fullmatch(rf"([0-9.]+(?:[eE][+-]?\d+)?)(Ki|Mi|Gi|[kMGTP]?)(?:{unit})?", text.strip())
    try:
        value = float(found[1]) * _SCALES[found[2]] if found else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise TraceFileError(f"{path}: {name} {text!r} is no positive amount in {unit}")
    return value


def _bytes_per_s(path: Path, name: str, text: str) -> float:
    return _scaled(path, name, text, "bps") / 8 if text.endswith("bps") else _scaled(path, name, text, "Bps")


def _time_s(path: Path, name: str, text: str) -> float:
    found = re.fullmatch(r"([0-9.]+(?:[eE][+-]?\d+)?)([a-z]*)", text.strip())
    try:
        if found:
            return float(found[1]) * _TIMES_S[found[2]]
    except (ValueError, KeyError):
        pass
    raise TraceFileError(f"{path}: {name} {text!r} is no time")


def changed(platform: Platform, *, latency: float = 1.0, bandwidth: float = 1.0) -> Platform:
    """The platform with other links: times these factors."""
    network = platform.network
    topology = network.topology
    if isinstance(topology, Crossbar) and topology.backbone_bytes_per_s:
        topology = replace(
            topology,
            backbone_bytes_per_s=topology.backbone_bytes_per_s * bandwidth,
            backbone_latency_s=topology.backbone_latency_s * latency,
        )
    return replace(
        platform,
        network=replace(
            network,
            topology=topology,
            link_latency_s=network.link_latency_s * latency,
            link_bytes_per_s=network.link_bytes_per_s * bandwidth,
        ),
    )
