"""TensorFlow models, however they come, as functions of named inputs that can be converted."""
