"""Tracing: records what a stage reads without declaring it, while it runs.

| what | found by |
|---|---|
| files that Python opens, and looks for in vain | audit hook (`recorder.py`) |
| folders that Python lists | audit hook (`recorder.py`) |
| modules of the project, and where one was looked for in vain | a path hook (`modules.py`) |
| what Python asks for without opening it: presence, sizes, links | functions of `os` (`probes.py`) |
| files that native code and programs open or ask for (`access`, `readlink`) | seccomp notifications (`native.py`) |
| environment variables that the project's code looks up | the type of `os.environ` (`variables.py`) |
| those that a locale is taken from | functions of `locale` (`locales.py`) |
| distributions that the process has loaded | `sys.modules` (`packages.py`) |
| modules that anybody looks for, there or not | a function of `importlib` (`imports.py`) |
| distributions whose metadata anybody asks for by name | a function of `importlib.metadata` (`versions.py`) |
| what of this Python sees in processes that the stage forks, on Linux | hooks of `os.fork` (`forks.py`) |
| and in those that it has `multiprocessing` or joblib start | what these are given first (`started.py`) |
| modules that processes load which the stage starts, on Linux | seccomp notifications (`children.py`) |

Not seen: times and modes of files, and sizes that `os.scandir` tells; folders that native code lists, and files that it
asks for by `stat`; the environment as native code reads it, as a copy of it is, or by the names that are in
it; what comes over a network, from a clock or from a random device; and, away from Linux, files that native code opens.
"""
