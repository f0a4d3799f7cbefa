"""ONNX Runtime's execution providers: their options, libraries and devices."""
