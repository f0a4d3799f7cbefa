"""Kinds that `orun blame` adds to a pipeline by itself; no file names them."""
