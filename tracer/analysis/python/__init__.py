"""Analysis of traced Python programs: blocks, arrays, idioms and dependences."""
