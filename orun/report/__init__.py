"""Reports of a run for people and machines, made from events and run records only."""
