"""Accuracy measurement: models over a dataset, against a reference and against labels."""
