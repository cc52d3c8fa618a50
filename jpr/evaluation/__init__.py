"""Measures, their intervals and tests, and what the best order could have reached."""
