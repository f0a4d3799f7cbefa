"""The search of `quantize/tune`: what can be tried, how a candidate is built and judged, and in which order.

settings.py     one way to make a model cheaper, and where it runs
build.py        makes a candidate with the library's own kinds
harm.py         which parts of a model suffer most from being quantized
judge.py        accuracy and speed of a candidate beside the model it was made of
ledger.py       what was tried, on disk, so that an interrupted search goes on
search.py       single recipes, then what is left out of them, then Optuna
"""
