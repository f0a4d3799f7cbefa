"""Kinds that rewrite a model so that it computes the same with less."""
