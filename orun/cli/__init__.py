"""The command line: one file a verb, each a thin caller of the Python API."""
