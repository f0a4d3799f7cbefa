"""What the kinds of `compile/` share."""
