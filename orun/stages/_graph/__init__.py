"""ONNX models: read, written, made canonical, fed and compared."""
