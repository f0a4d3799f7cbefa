"""Short way of a run with nothing to do: check, record, restore."""
