"""Planning: what must run and why."""
