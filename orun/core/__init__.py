"""Plain data that rooms hand to one another: records, events, metrics, targets, source locations."""
