"""What a run recorded, before it is analysed."""
