"""Predictions against measured run times and published figures."""
