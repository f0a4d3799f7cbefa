"""Two models side by side: which tensors they share, what lies between those, and where their values part."""
