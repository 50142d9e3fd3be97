"""Software-defined events: a library that programs link with, and what reads it from outside."""
