"""Execution of a plan: locks, stages, results, output checkouts."""
