"""Search of `quantize/tune`: recipes, candidates, their accuracy and speed, and the order of trials.

settings.py     one way to make a model cheaper, and where it runs
build.py        makes a candidate with the library's own kinds
harm.py         which parts of a model quantization harms most
judge.py        accuracy and speed of a candidate, relative to the float model
trial_log.py    trials on disk, so that an interrupted search resumes
search.py       single recipes, then recipes with layers in float, then Optuna
"""
