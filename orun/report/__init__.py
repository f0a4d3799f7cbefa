"""What people and machines see of a run, made from events and run records only."""
