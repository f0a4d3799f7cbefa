"""Preparation of inputs and outputs inside a model, by standard operators and those of onnxruntime-extensions."""
