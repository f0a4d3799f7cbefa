"""Kinds that bring a model into the form that a target runs."""
