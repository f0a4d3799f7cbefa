"""Reports of a run for people and machines."""
