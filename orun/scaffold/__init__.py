"""Scaffold: `orun init` reads a model and writes a pipeline for it."""
