"""A real S3 server on loopback: `python s3_server.py PORT`."""

import logging
import signal
import sys

from moto.moto_server.threaded_moto_server import ThreadedMotoServer


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False).start()
    signal.pause()


if __name__ == "__main__":
    main()
