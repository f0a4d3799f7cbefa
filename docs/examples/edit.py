"""A change of a model, for optimize/python."""

import onnx


def change(model: onnx.ModelProto) -> onnx.ModelProto:
    """Say in the file who made it."""
    model.producer_name = "digits team"
    return model
