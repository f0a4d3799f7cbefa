"""Code that the bad pipeline files name."""


def load_model():
    return None


def pairs():
    return None
