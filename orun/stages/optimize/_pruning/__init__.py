"""What `optimize/prune` takes out, and how."""
