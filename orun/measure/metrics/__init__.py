"""Metrics and their intervals."""
