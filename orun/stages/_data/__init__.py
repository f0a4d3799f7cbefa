"""Datasets that are read from files, or made up from a model's signature."""
