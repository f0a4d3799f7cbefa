"""PyTorch models: where they come from, how they are exported."""
