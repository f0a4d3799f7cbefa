"""Models run by onnxruntime-web, in Node.js and in Chromium."""
