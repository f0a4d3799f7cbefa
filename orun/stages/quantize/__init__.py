"""Kinds that trade numerical precision for speed and size."""
