"""Remote store: results shared between machines through a bucket, a folder or a web server.

    objects/ab/cdef...        files by their BLAKE3 digest, as in the store
    actions/ab/<key>/<n>      signed records of the results of a key, n = 0, 1, ... in order of arrival

An object is written before the record that needs it. A record is written once: the second writer finds the first.
Records are found by asking for 0, 1, ... until none is there. That needs no listing, which a web server does not offer
and a bucket charges for.

What comes from a remote is data and never trusted. Transfers run in threads (`connection.py`); the run's own thread
decides what to download, validates it and writes to the store (`download.py`).
"""
