"""The version of foretrace."""

__version__ = "0.1.0"
