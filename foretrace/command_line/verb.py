"""Commands that take options as foretrace's do: each once, in front of the program that they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from . import limits


@dataclass(slots=True)
class Bounds:
    """Limits that the command line enforces, kept as its context's object; absent elsewhere (API, tests).

    Attributes:
        memory_gib, cpu_s: what the user allows instead of the verb's own limits; None: these.
    """

    memory_gib: float | None = None
    cpu_s: int | None = None


def begin_limits(verb: str) -> None:
    """Bound the process by the limits of a verb, if it runs as a command of its own."""
    context = click.get_current_context(silent=True)
    bounds = context.find_object(Bounds) if context else None
    if bounds is not None:
        limits.apply(limits.changed(limits.LIMITS[verb], bounds.memory_gib, bounds.cpu_s))


class _Limited(click.Command):
    """A command whose verb may have limits (`foretrace.command_line.limits`)."""

    runs_programs = False
    """Whether the verb runs programs, which would inherit limits set at its start: it sets them itself, later."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command within its limits."""
        if (verb := _verb_of(ctx)) and not self.runs_programs:
            begin_limits(verb)
        return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verb's limits, then its examples."""
        if verb := _verb_of(ctx):
            with formatter.section("Limits"):
                formatter.write_text(f"{limits.LIMITS[verb]}; foretrace --max-memory and --max-time change them.")
        super().format_epilog(ctx, formatter)


class Verb(_Limited):
    """A command whose single-valued options may each be given once: a second value would silently win.

    `last_options` end the command's own options: with the value of one (`-m MODULE`), all that follows is the
    program's, as the interpreter has it.
    """

    def __init__(
        self, *args: Any, last_options: Sequence[str] = (), runs_programs: bool = False, **kwargs: Any
    ) -> None:
        """Take click's arguments, and `last_options`: options such as `-m` that end the command's own."""
        super().__init__(*args, **kwargs)
        self._last_options = last_options
        self.runs_programs = runs_programs

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that are repeated, and parse the rest."""
        return super().parse_args(ctx, own_arguments(self, ctx, args, self._last_options))


class VerbGroup(_Limited, click.Group):
    """A verb with subcommands."""

    command_class = Verb

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that are repeated, and parse the rest."""
        return super().parse_args(ctx, own_arguments(self, ctx, args, ()))


def _verb_of(ctx: click.Context) -> str | None:
    """The verb of a command, if it has limits."""
    names = [one.info_name for one in (ctx, *_parents(ctx))]
    return next((name for name in names if name in limits.LIMITS), None)


def _parents(ctx: click.Context) -> Iterator[click.Context]:
    while ctx.parent is not None:
        ctx = ctx.parent
        yield ctx


def own_arguments(command: click.Command, ctx: click.Context, args: list[str], last: Sequence[str]) -> list[str]:
    """The arguments, with `--` where a command's own options end by one of `last`.

    Raises:
        UsageError: an option is given twice that has one value.
    """
    given: dict[str, str] = {}
    for option, name, value, end in _options(command, ctx, args):
        assert option.name is not None
        if value is None or option.multiple:
            continue
        if option.name in given:
            raise click.UsageError(f"{name} is given twice ({given[option.name]!r} and {value!r}): give it once", ctx)
        given[option.name] = value
        if name in last:
            return [*args[:end], "--", *args[end:]]
    return args


def _options(
    command: click.Command, ctx: click.Context, args: Sequence[str]
) -> Iterator[tuple[click.Option, str, str | None, int]]:
    """The command's own options among its arguments, as click's parser finds them.

    Each with its name as given, its value (None for a flag, and if it is missing) and the number of arguments up to
    its end. What click would not accept ends them: it says best what is wrong.
    """
    known = {
        name: parameter
        for parameter in command.get_params(ctx)
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    position = 0
    while position < len(args):
        word = args[position]
        position += 1
        if word == "--":
            return
        if not word.startswith("-") or word == "-":
            if not ctx.allow_interspersed_args:
                return
            continue
        name, attached, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        while (option := known.get(name)) is not None and option.is_flag:
            yield option, name, None, position
            if word.startswith("--") or not attached:
                break
            name, attached, value = f"-{attached[0]}", attached[1:], attached[1:]
        if option is None:
            return
        if option.is_flag:
            continue
        if not attached:
            if position == len(args):
                return
            value = args[position]
            position += 1
        yield option, name, value, position
