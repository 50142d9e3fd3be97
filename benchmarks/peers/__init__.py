"""foretrace against its peers: cost, exactness, memory."""
