"""Event log of a run: its writer, and the reducer that makes the run's result of it."""
