"""What the report says of pruning: counted by hand on rows with known decisions."""

import pytest

from archopt.report.pruning import decision_table, pruning_sentences, worth_sentence

WORTH = {"helped": "no", "gain": -0.021, "low": -0.08, "high": 0.03, "tau": -0.12, "tau_error": 0.09, "n_trials": 58}


def _decision(would_prune, predicted=0.9, incumbent=0.5):
    return {
        "step": 60,
        "prune": would_prune,
        "would_prune": would_prune,
        "reason": "P(better than 0.5) = 0.01 at step 60",
        "predicted": predicted,
        "predicted_sd": 0.1,
        "incumbent": incumbent,
        "p_better": 0.01,
        "by_curve": 0.88,
        "by_curve_and_diversity": 0.9,
        "diversity_gain": 0.04,
    }


def _row(number, state, value, decisions):
    steps = (20, 60) if state == "pruned" else (20, 60, 360)
    return {
        "number": number,
        "state": state,
        "n_heads": 4,
        "head_dim": 12,
        "value": value,
        "curve": [[step, 1.0] for step in steps],
        "decisions": decisions,
    }


def test_forecasts_that_ran_on_are_counted():
    rows = [
        _row(0, "complete", 0.6, [_decision(False)]),
        _row(1, "complete", 0.4, [_decision(False), _decision(True)]),  # better than 0.5: it would have been wrong
        _row(2, "complete", 0.8, [_decision(True)]),
        _row(3, "pruned", None, [_decision(True)]),
    ]
    told = " ".join(pruning_sentences({}, rows))
    assert "1 of 4 trials were pruned, which saved 21 % of the training steps" in told  # 300 of 4 x 360
    assert "2 trials would have been stopped but ran to the end: 1 of them came out better" in told
    assert "0.36 apart" in told  # sqrt((0.5^2 + 0.1^2) / 2)
    table = decision_table(rows)
    assert [row[0] for row in table.rows] == ["1", "2", "3"]  # those that ran on first
    assert table.rows[0][3:8] == ("0.9 ± 0.1", "+0.02", "0.5", "1 %", "0.4")


@pytest.mark.parametrize("incumbent", [0.0, -0.5])
def test_maximised_values_and_zero(incumbent):
    rows = [_row(0, "complete", incumbent + 0.1, [_decision(True, predicted=incumbent - 0.4, incumbent=incumbent)])]
    assert "1 trial would have been stopped but ran to the end: 1 of them" in " ".join(pruning_sentences({}, rows))


def test_nothing_is_said_of_what_is_not_there():
    assert pruning_sentences({}, []) == []
    assert decision_table([_row(0, "complete", 0.6, [_decision(False)])]) is None
    assert worth_sentence({}) == ""
    assert worth_sentence({**WORTH, "n_trials": 0}) == ""


def test_the_worth_of_diversity_in_words():
    told = worth_sentence(WORTH)
    assert told.startswith("HDI helped: no. Read with the curve, head diversity lowered")
    assert "by -2.1 % (90 % interval -8.0 to 3.0, 58 trials" in told
    assert "was -0.12, where chance gives 0 ± 0.09" in told
    few = worth_sentence({"helped": "cannot tell", "gain": None, "tau": None, "n_trials": 7})
    assert few == "HDI helped: cannot tell. 7 finished trials with head diversity are too few to measure what it adds."
