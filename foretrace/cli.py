"""The command line: `foretrace VERB`. Errors become exit codes here and nowhere else."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import NoReturn

import click

from foretrace.base.errors import ForetraceError, LimitError
from foretrace.base.version import __version__
from foretrace.command_line import limits, standard_streams
from foretrace.command_line.parameters import NumberRange
from foretrace.command_line.signals import die_by_signal
from foretrace.command_line.verb import Bounds

VERBS = {
    "trace": "run a program and record its signature",
    "info": "show what a signature holds",
    "time": "run a program natively, time and sample it",
    "simulate": "caches alone, on a stored stream or another tool's trace",
    "curve": "miss ratio over cache size, as a picture",
    "predict": "run time of a signature's program on other machines",
    "replay": "threads and copies of a program on a machine's cores, memory and accelerators",
    "sweep": "many runs on many machines, under many changes",
    "idioms": "patterns of computation in source code: gathers, stencils, reductions and more",
    "triage": "which loops are worth porting to an accelerator",
    "events": "software-defined events: what libraries say that they do",
    "machines": "list, explain and check machine profiles",
    "calibrate": "measure this machine and write its profile",
    "sgbench": "bandwidth of gather and scatter on this machine",
    "validate": "reference figures beside foretrace's own",
}
_PIPE_EXIT_CODE = 128 + signal.SIGPIPE


class _Verbs(click.Group):
    """Imports a verb's module only when that verb runs: `foretrace --help` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"foretrace.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the verbs are {', '.join(VERBS)}"
            raise click.UsageError(f"there is no verb {args[0]!r}{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    cls=_Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExample:\n  foretrace trace -o ls.sig -- ls -l\n  foretrace predict ls.sig --all",
)
@click.version_option(__version__, message="foretrace %(version)s")
@click.option("--max-memory", type=NumberRange(0.1, 1e6), metavar="GIB", help="Memory that VERB may take.")
@click.option("--max-time", type=click.IntRange(1, 10**9), metavar="S", help="Processor time that VERB may take.")
@click.pass_obj
def group(bounds: Bounds | None, max_memory: float | None, max_time: int | None) -> None:
    """Trace a program once, predict it on any machine, know what to port."""
    if bounds is not None:
        bounds.memory_gib, bounds.cpu_s = max_memory, max_time


def main() -> NoReturn:
    """Run the `foretrace` command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    standard_streams.set_up()
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        code = _PIPE_EXIT_CODE  # nothing to complain about
    except OSError as error:
        where = f"{error.filename}: " if error.filename else "standard output: "
        code = _complain(f"{where}{error.strerror or error}", 75)
    except (KeyboardInterrupt, click.Abort):
        die_by_signal(signal.SIGINT)
    sys.stderr.flush()
    os._exit(code)  # giving back memory object by object takes a tenth of a short trace


def _run() -> int:
    """Run the verb. Returns the exit code."""
    try:
        code = group.main(prog_name="foretrace", standalone_mode=False, obj=Bounds())
    except limits.TimeLimitReachedError:
        return _complain(
            "it takes more processor time than its limit; foretrace --max-time S VERB allows more",
            LimitError.exit_code,
        )
    except MemoryError:
        return _complain(
            "it takes more memory than its limit, or than there is; foretrace --max-memory GIB VERB allows more",
            LimitError.exit_code,
        )
    except ForetraceError as error:
        return _complain(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:  # its message is the whole help, of many lines
        print(f"{error.format_message()}\n", file=sys.stderr)
        return _complain("name a verb", error.exit_code)
    except click.UsageError as error:
        if error.ctx is not None:
            print(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help'.\n", file=sys.stderr)
        return _complain(error.format_message(), error.exit_code)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except SystemExit:  # how click ends when whoever read our output has gone
        raise BrokenPipeError from None
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    from foretrace.base.terminal import plain

    print(f"foretrace: error: {plain(message)}", file=sys.stderr)
    return code
