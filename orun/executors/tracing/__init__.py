"""Tracing: records what a stage reads without declaring it, while it runs.

| what | recorded by |
|---|---|
| files that Python opens, or that are missing | audit hook (`recorder.py`) |
| folders that Python lists | audit hook (`recorder.py`) |
| modules of the user, and where one would be found first | path hook (`user_modules.py`) |
| presence, sizes and links that Python asks for without opening | functions of `os` (`probes.py`) |
| files that native code and programs open or probe (`access`, `readlink`) | seccomp notifications (`native.py`) |
| environment variables that the user's code looks up | type of `os.environ` (`variables.py`) |
| variables of locales | functions of `locale` (`locales.py`) |
| distributions that the process has loaded | `sys.modules` (`packages.py`) |
| searches for modules, found or not | function of `importlib` (`module_searches.py`) |
| distributions whose metadata is looked up by name | function of `importlib.metadata` (`metadata_lookups.py`) |
| all of this in forked processes (Linux) | fork hooks (`forked_workers.py`) |
| all of this in workers of `multiprocessing` and joblib | their preparation data (`spawned_workers.py`) |
| modules that other child processes load (Linux) | seccomp notifications (`child_modules.py`) |

Not seen: times and modes of files; sizes from `os.scandir`; folders that native code lists, and its `stat` calls; the
environment as native code reads it, as a copy, or by iterating over its names; network, clocks and random devices; and,
on other systems than Linux, files that native code opens.
"""
