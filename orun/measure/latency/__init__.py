"""Latency measurement: launches, ABBA blocks, CPU time, the sequential test."""
