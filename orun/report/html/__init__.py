"""The report that one opens in a browser: one file, without scripts, that needs nothing else."""
