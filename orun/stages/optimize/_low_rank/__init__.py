"""Factorisation of `optimize/low-rank`: layers, their factors, the choice of ranks, and the new nodes."""
