"""Agent: runs single stages of a snapshot of the user's project for a driver on another machine."""
