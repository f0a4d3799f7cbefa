"""Kinds that turn a model of some framework into an `onnx` artifact."""
