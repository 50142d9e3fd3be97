"""Analysis of recordings: loops, modules and a signature from counts, for machine code and Python alike."""
