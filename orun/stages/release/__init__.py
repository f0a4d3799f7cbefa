"""Kinds that make of a model what is handed out."""
