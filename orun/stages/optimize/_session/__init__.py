"""Search for the fastest session settings of a model: candidates, and how they are eliminated."""
