"""Measures machines, and measures foretrace against its peers."""
