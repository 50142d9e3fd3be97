"""The command `foretrace`, which is also `python -m foretrace`."""

import signal


def run() -> None:
    """Run the command line. While its modules are read a ^C ends us as any program: there is nothing to undo."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main

    main()


if __name__ == "__main__":
    run()
