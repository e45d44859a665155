"""Ctrl-C and SIGTERM, taken at moments when nothing is half written."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Within, a first signal waits until the yielded function is called, which then raises KeyboardInterrupt.

    A signal that came after the last call raises at the end, where no other error does. A second signal does not wait.
    Outside the main thread, where Python takes no signals, nothing changes.
    """
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise KeyboardInterrupt

    def check() -> None:
        if seen:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    check()
