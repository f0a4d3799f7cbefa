"""Edits of `optimize/edit`: inputs and outputs, constants, nodes, and parts of models."""
