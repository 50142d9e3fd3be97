"""Software-defined events in predictions: which work is proportional to an event, and the time for another count."""
