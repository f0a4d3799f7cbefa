"""Search of `quantize/tune`: recipes, candidates, their accuracy and speed, and the order of trials."""
