"""Kinds that examine a model and pass it on unchanged."""
