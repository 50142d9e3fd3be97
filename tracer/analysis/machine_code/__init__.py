"""Analysis of traced binaries: blocks, data flow, idioms and paths."""
