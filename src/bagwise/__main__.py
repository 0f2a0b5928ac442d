"""The command ``bagwise``, also ``python -m bagwise``."""

import os
import signal
from types import FrameType

from bagwise.exceptions import INTERRUPTED


def main() -> None:
    """Run the command line.

    Ctrl-C during the imports ends the process immediately: no work has started yet, and compiled
    modules turn a KeyboardInterrupt into other errors.
    """
    # Only if Python's own handler is set: a background job ignores SIGINT, a caller may handle it.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, _leave)
    from bagwise.cli import main as run

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(_: int, __: FrameType | None) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
