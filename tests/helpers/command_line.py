"""Runs the command line within the test's own process."""

from click.testing import CliRunner

from foretrace.cli import group


def run(*arguments):
    result = CliRunner().invoke(group, [str(a) for a in arguments], prog_name="foretrace")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
