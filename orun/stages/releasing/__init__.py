"""What the kinds of `release/` share."""
