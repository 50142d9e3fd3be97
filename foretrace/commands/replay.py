"""`foretrace replay`: a program's jobs on a machine's cores, memory and accelerators."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.base.units import parse_factor
from foretrace.command_line.verb import Verb
from foretrace.replay.base.records import Model
from foretrace.replay.engine.simulation import MOST_SEGMENTS
from foretrace.replay.offload.policy import Policy
from foretrace.replay.ranks.collectives import LIBRARIES
from foretrace.replay.ranks.platform import MODELS, changed, read_platform
from foretrace.replay.ranks.records import RankReplay
from foretrace.replay.ranks.run import replay_ranks
from foretrace.replay.ranks.run_files import read_ranks
from foretrace.replay.ranks.trace_writer import write_time_independent
from foretrace.reports.rank_reports import rank_report
from foretrace.reports.timelines import check_timeline, write_timeline
from foretrace.tracer.signature.file import read_signature

from .output_options import Output, output_options


@click.command(cls=Verb, epilog="Example: foretrace replay app.sig --machine epyc-9654 --copies 8 -o timeline.json.gz")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--machine", metavar="M", help="The host: a machine's name or TOML file.")
@click.option("--cores", type=int, metavar="N", help="Use this many of its cores; all if not given.")
@click.option("--threads", type=int, metavar="N", help="Threads of each copy; as traced if not given.")
@click.option("--copies", type=int, default=1, show_default=True, metavar="N", help="Copies that run at the same time.")
@click.option("--accelerator", metavar="A", help="An accelerator of the host: a machine's name or TOML file.")
@click.option("--accelerators", type=int, metavar="K", help="How many there are; 1 if not given.")
@click.option(
    "--policy",
    type=click.Choice([str(policy) for policy in Policy]),
    help="Which loops go to it; greedy if not given.",
)
@click.option(
    "--model",
    type=click.Choice([str(model) for model in Model]),
    default=str(Model.CORE),
    show_default=True,
    help="What gives a loop its time: the detailed core model, or the convolution as published.",
)
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@click.option(
    "--platform",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Nodes and network (SimGrid's XML, one cluster), for the trace of a parallel run.",
)
@click.option("--nodes", type=int, metavar="N", help="Nodes for the ranks of a parallel run; as many as needed.")
@click.option(
    "--ranks-per-node",
    type=int,
    metavar="R",
    help="Ranks that share a node; 1 of a platform, and as many as a machine has cores, if not given.",
)
@click.option(
    "--network",
    metavar="X",
    help="What joins the nodes: an interconnect's name or TOML file, or its latency and bandwidth: 2us,12.5GB/s.",
)
@click.option("--topology", metavar="T", help="Of the network: crossbar, torus:4x4, fat-tree:...; as it says itself.")
@click.option(
    "--io-bandwidth",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GB/S",
    help="At which each rank of a recorded run reads and writes files; left out, and counted, if not given.",
)
@click.option(
    "--timed-on",
    metavar="M",
    help="The machine that a run was timed on (trace --mpi --native), to scale its computation.",
)
@click.option(
    "--like",
    metavar="SIGNATURE",
    type=click.Path(path_type=Path),
    help="A signature whose times on both machines say by how much.",
)
@click.option(
    "--network-model", type=click.Choice([*MODELS]), help="SimGrid's model of the network; SMPI if not given."
)
@click.option(
    "--collectives",
    type=click.Choice([*LIBRARIES]),
    help="Whose algorithms collectives follow; those of the run's own library, or mpich, if not given.",
)
@click.option(
    "--algorithm", multiple=True, metavar="C=A", help="Algorithm of a collective: allreduce=ring. Repeatable."
)
@click.option("--latency", metavar="Fx", help="What if the links' latency were F times as long, as in 0.5x.")
@click.option("--bandwidth", metavar="Fx", help="What if the links' bandwidth were F times as high, as in 2x.")
@click.option(
    "--placement",
    metavar="P",
    help="Of ranks on the platform's nodes: block (the default), round-robin, or a file with the node of each rank.",
)
@click.option(
    "--write-trace",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the ranks' actions as such a trace, too.",
)
@output_options(pictures="the timeline (.json.gz is for ui.perfetto.dev)", check=check_timeline)
def command(
    run: Path, machine: str | None, cores: int | None, threads: int | None, copies: int, accelerator: str | None,
    accelerators: int | None, policy: str | None, model: str, assumptions: bool, platform: Path | None,
    nodes: int | None, ranks_per_node: int | None, network: str | None, topology: str | None, timed_on: str | None,
    like: Path | None, io_bandwidth: float | None, network_model: str | None, collectives: str | None,
    algorithm: tuple[str, ...], latency: str | None, bandwidth: str | None, placement: str | None,
    write_trace: Path | None, output: Output,
) -> None:  # fmt: skip
    """Replay a program on a machine: its threads, or copies of it, share cores, caches, memory, devices.

    RUN is a signature; with --platform the time-independent trace of a parallel run, whose ranks are replayed on nodes
    joined by a network.
    """
    of_one_node = (cores, threads, accelerator, accelerators, policy)
    of_ranks = (nodes, ranks_per_node, network, topology, timed_on, like, io_bandwidth, collectives, latency, bandwidth)
    if platform is not None:
        if copies != 1 or any(
            given is not None
            for given in (machine, *of_one_node, nodes, network, topology, timed_on, like, io_bandwidth)
        ):
            raise click.UsageError(
                "--platform says where ranks run: options of a machine, its cores, threads, copies and accelerators, "
                "and of its network, do not go with it"
            )
        where = changed(
            read_platform(platform, network_model or "SMPI"),
            latency=_factor("--latency", latency),
            bandwidth=_factor("--bandwidth", bandwidth),
        )
        actions = read_ranks(run)
        if write_trace is not None:
            for name, times in write_time_independent(actions, write_trace).items():
                click.echo(f"{write_trace}: {times:,} calls of {name} are written as plain sends", err=True)
        _show(
            replay_ranks(
                actions, where, ranks_per_node=1 if ranks_per_node is None else ranks_per_node,
                placement=placement or "block", library=collectives or "mpich", algorithms=_algorithms(algorithm),
                most_segments=MOST_SEGMENTS if output.pictures else 0,
            ),
            output,
        )  # fmt: skip
        return
    of_platforms = {"--network-model": network_model, "--write-trace": write_trace, "--placement": placement}
    option = next((name for name, given in of_platforms.items() if given is not None), None)
    if option is not None:
        raise click.UsageError(f"{option} goes with --platform")
    if machine is None:
        raise click.UsageError("name the machine with --machine, or a cluster with --platform")
    # Slow to import, and not needed for a platform.
    from foretrace.profiles.library import find
    from foretrace.replay.node.machine_run import Offloading
    from foretrace.replay.node.replay import replay_on
    from foretrace.reports.replay_reports import replay_report

    signature = read_signature(run)
    if signature.ranks is not None:
        from foretrace.profiles.interconnect import interconnect_of
        from foretrace.replay.ranks.machine_run import Layout, TimedOn, replay_run

        if copies != 1 or any(given is not None for given in of_one_node):
            raise click.UsageError(
                "options of cores, threads, copies and accelerators do not go with a parallel run yet"
            )
        if (timed_on is None) != (like is None):
            raise click.UsageError("--timed-on and --like go together: the machine, and what is predicted on both")
        layout = Layout(
            nodes, ranks_per_node, None if network is None else interconnect_of(network), topology, collectives or "",
            _algorithms(algorithm), _factor("--latency", latency), _factor("--bandwidth", bandwidth),
            None if io_bandwidth is None else 1e9 * io_bandwidth,
        )  # fmt: skip
        ratio = None if timed_on is None or like is None else TimedOn(find(timed_on), read_signature(like))
        _show(
            replay_run(
                signature, find(machine), layout, origin=str(run), timed_on=ratio, model=Model(model),
                most_segments=MOST_SEGMENTS if output.pictures else 0,
            ),
            output,
            assumptions=assumptions,
        )  # fmt: skip
        return
    if any(given is not None for given in of_ranks) or algorithm:
        raise click.UsageError(f"options of ranks and networks go with a parallel run; {run} is of a single program")
    if accelerator is None and (accelerators is not None or policy not in (None, str(Policy.NEVER))):
        raise click.UsageError("--accelerators and --policy are about an accelerator: name it with --accelerator")
    offloading = None
    if accelerator is not None:
        count = 1 if accelerators is None else accelerators
        offloading = Offloading(find(accelerator), count, Policy(policy or Policy.GREEDY))
    replay = replay_on(
        signature, find(machine), cores=cores, threads=threads, copies=copies, offloading=offloading,
        model=Model(model),
    )  # fmt: skip
    for path in output.pictures:
        write_timeline(replay, path, force=output.force)
    output.show(replay_report(replay, assumptions=assumptions))


def _show(replay: RankReplay, output: Output, *, assumptions: bool = False) -> None:
    for path in output.pictures:
        write_timeline(replay, path, force=output.force)
    output.show(rank_report(replay, assumptions=assumptions))


def _factor(option: str, text: str | None) -> float:
    """The factor of a what-if: "0.5x"; 1 if it is not given."""
    try:
        return 1.0 if text is None else parse_factor(text)
    except ValueError:
        raise click.UsageError(f"{option} {text}: must be a positive factor, as in 0.5x") from None


def _algorithms(given: tuple[str, ...]) -> dict[str, str]:
    """Algorithms by collective."""
    for one in given:
        if "=" not in one:
            raise click.UsageError(f"--algorithm {one}: must name a collective and its algorithm, as in allreduce=ring")
    return {name: algorithm for name, _, algorithm in (one.partition("=") for one in given)}
