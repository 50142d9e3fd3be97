"""The discrete-event engine: entities that run timeline programs and share cores, bandwidth, locks and devices."""
