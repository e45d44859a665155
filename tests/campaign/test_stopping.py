"""When a search calls itself certain, and in which words."""

from typing import Any

from archopt.allocation import HeadAllocation
from archopt.campaign.stopping import Certainty, Tally
from archopt.recommendation import Recommendation


def _recommendation(**changes: Any) -> Recommendation:
    values: dict[str, Any] = {
        "allocation": HeadAllocation(4, 2),
        "params": {},
        "p_best": 1.0,
        "p_good": 1.0,
        "confidence": 0.9,
        "confidence_set": (),
        "estimates": (),
        "noise_sd": 0.1,
        "tolerance": 0.01,
        "expected_regret": 0.02,
        "reason": "",
        "caveats": (),
        "direction": "minimize",
        "sure": True,
    }
    return Recommendation(**{**values, **changes})


def test_certain_after_three_looks_in_a_row_and_never_a_hundred_per_cent() -> None:
    certainty = Certainty(_recommendation, 0.9)
    certainty.begin(Tally(n_finished=30))
    for n_finished in range(31, 45):
        certainty.look(Tally(n_finished=n_finished))
        assert certainty.reason() is None
    certainty.look(Tally(n_finished=45))  # the looks were at 35, 40 and 45
    assert certainty.reason() == (
        "certain enough: probability > 99 % that no other allocation is better, "
        "expected loss against the best 0.20 noise sd"
    )


def test_looks_are_not_missed_where_other_machines_add_trials() -> None:
    certainty = Certainty(_recommendation, 0.9)
    certainty.begin(Tally())
    for n_finished in (34, 38, 41, 46):
        certainty.look(Tally(n_finished=n_finished))
    assert certainty.reason() is not None


def test_an_unsure_look_starts_over() -> None:
    certainty = Certainty(lambda: _recommendation(sure=False), 0.9)
    for n_finished in range(30, 60):
        certainty.look(Tally(n_finished=n_finished))
    assert certainty.reason() is None
