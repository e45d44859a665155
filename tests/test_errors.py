"""Errors: one family, picklable, with the exit code that a command ends with."""

import pickle

import pytest

from archopt import errors


def _all_errors() -> list[type[errors.ArchoptError]]:
    return [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.ArchoptError)
    ]


def test_bad_input_exits_with_2_and_failures_while_running_with_1() -> None:
    failures = {errors.TrialFailed, errors.CampaignFailed}
    assert {error for error in _all_errors() if error.exit_code == 1} == failures
    assert all(error.exit_code == 2 for error in _all_errors() if error not in failures)


@pytest.mark.parametrize("kind", [errors.OptionError, errors.DataError, errors.StorageError, errors.TrialFailed])
def test_errors_cross_process_borders(kind: type[errors.ArchoptError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("n must be at least 1 but got 0")))
    assert type(copy) is kind
    assert str(copy) == "n must be at least 1 but got 0"


def test_degenerate_head_keeps_its_head_across_process_borders() -> None:
    copy = pickle.loads(pickle.dumps(errors.DegenerateHeadError("head 3 is not finite", 3)))
    assert (str(copy), copy.head) == ("head 3 is not finite", 3)
