"""Kinds that measure a model; gates judge what they find."""
