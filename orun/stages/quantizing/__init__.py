"""What the kinds of `quantize/` share."""
