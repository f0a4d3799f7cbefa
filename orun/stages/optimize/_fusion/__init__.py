"""Fusions of transformer layers: rules of our own, and ONNX Runtime's optimizer."""
