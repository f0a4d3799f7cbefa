"""Thresholds, accepted baselines and verdicts; pure Python over stored measurements."""
