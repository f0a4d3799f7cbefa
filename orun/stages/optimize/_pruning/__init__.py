"""Pruning of `optimize/prune`: single weights and whole channels."""
