"""Who did it: the stage and the node behind a failed gate, and the change between a good run and a bad one."""
