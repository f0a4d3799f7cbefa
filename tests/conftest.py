"""What every test can count on, wherever the suite was started."""

import signal

# A shell that starts a command in the background, as CI may, has it ignore SIGINT, and processes inherit that: a test
# that interrupts one of its own would wait for ever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
