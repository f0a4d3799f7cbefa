"""What a stage reads without declaring it, found out while it runs.

| what | found by |
|---|---|
| files that Python opens, and looks for in vain | audit hook (`recorder.py`) |
| folders that Python lists | audit hook (`recorder.py`) |
| modules of the project, and where one was looked for before it was found | a path hook (`modules.py`) |
| files opened below Python, by native code and by child processes, on Linux | seccomp notifications (`native.py`) |
| environment variables that the project's code looks up | the type of `os.environ` (`variables.py`) |
| distributions that the project's code imports | `packages.py` |

Not seen: whether a file exists, when only that is asked (`os.path.exists`); folders that native code lists; the
environment as native code reads it; what comes over a network, from a clock or from a random device; and, away from
Linux, files that native code opens.
"""
