"""Signals wait for the next check, and none is lost."""

import os
import signal

import pytest

from archopt.campaign.interrupts import SIGNALS, deferred_interrupts


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_check(number: signal.Signals) -> None:
    before, reached = signal.getsignal(number), []

    def work() -> None:
        with deferred_interrupts() as check:
            check()
            os.kill(os.getpid(), number)
            reached.append("behind the signal")
            check()
            reached.append("behind the check")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["behind the signal"]
    assert signal.getsignal(number) is before


def test_a_signal_after_the_last_check_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        os.kill(os.getpid(), signal.SIGINT)


def test_another_error_goes_before_it() -> None:
    def work() -> None:
        with deferred_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        work()
