"""Drift of a server's log from its release: the test, and the readers of both."""
