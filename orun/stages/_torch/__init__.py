"""PyTorch models: sources, export, limits of their precision."""
