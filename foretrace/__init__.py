"""foretrace: trace a program once, predict it on any machine, know what to port."""

__version__ = "0.1.0"
