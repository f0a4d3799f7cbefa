"""Search for who did it: the stage and node behind a failed gate, the change between a good run and a bad one."""
