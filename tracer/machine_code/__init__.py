"""What is read off a binary: its blocks, loops, instructions, symbols and source lines."""
