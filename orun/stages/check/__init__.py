"""Kinds that check a model and do not change it."""
