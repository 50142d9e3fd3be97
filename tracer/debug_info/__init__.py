"""ELF files: sections, function ranges, symbols and source lines."""
