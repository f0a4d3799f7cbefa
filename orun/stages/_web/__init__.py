"""Parts of the kinds for web pages: what onnxruntime-web takes, and how its answers compare."""
