"""The measuring engines and their statistics, used by `orun.stages.measure`."""
