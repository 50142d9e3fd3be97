"""The recording of a run, before it is analysed."""
