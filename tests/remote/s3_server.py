"""A real S3 server on loopback: prints its port and serves until its standard input ends."""

import logging
import sys

from moto.moto_server.threaded_moto_server import ThreadedMotoServer


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    print(port, flush=True)  # noqa: T201 - what the tests read
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
