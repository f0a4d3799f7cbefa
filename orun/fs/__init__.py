"""File system primitives: locks, durable writes, signatures, digests, OS errors."""
