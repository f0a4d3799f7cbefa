"""Files and folders: locks, durable writes, signatures, digests, traits of file systems, errors of the system."""
