"""Kinds that train PyTorch modules on a dataset of the pipeline."""
