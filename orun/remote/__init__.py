"""The remote store: results shared between machines through a bucket, a folder or a web server; data, never trusted.

    objects/ab/cdef...        files by their BLAKE3 digest, as in the store
    actions/ab/<key>/<n>      signed records of what was done for a key, n = 0, 1, ... in the order of their arrival

An object is written before the record that needs it, and a record is written once: who comes second finds the first.
Numbered records are found by asking for one after the other until there is none, which needs no listing: a web server
can give none, and a bucket charges for it.

All transfers happen in a process of their own (`agent.py`), which alone imports obstore and reads credentials; the run
talks to it over a socket (`client.py`) and decides what it takes (`exchange.py`).
"""
