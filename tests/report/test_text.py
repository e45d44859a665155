import io

import pytest
from rich.console import Console

from archopt.report.text import print_summary


def printed(recommendation, *, width=80, encoding="utf-8", terminal=False):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(file=stream, width=width, force_terminal=terminal, highlight=False, color_system=None)
    print_summary(recommendation, console)
    stream.flush()
    return raw.getvalue().decode(encoding)


def words(text):
    """The words in order, without what is only drawn around them."""
    return " ".join(text.replace("│", " ").split())


def test_the_answer_comes_first_and_states_its_certainty(recommendation):
    text = words(printed(recommendation))
    assert text.index("Use 4 heads x 12 (d_model 48), weighting uniform") < text.index("58 %")
    assert "Cannot be told apart from it (90 % confidence set): 6 heads x 8, 3 heads x 16." in text


def test_every_allocation_has_its_line(recommendation):
    lines = [line.split() for line in printed(recommendation).splitlines()]
    for entry in recommendation["allocations"]:
        (line,) = [cells for cells in lines if cells[:2] == [str(entry["n_heads"]), str(entry["head_dim"])]]
        assert f"{entry['mean']:.4f}" in line
        assert f"[{entry['low']:.4f}," in line
        assert f"{entry['high']:.4f}]" in line
        assert str(round(1000 * entry["seconds_per_step"])) in line
    assert [cells[-1] for cells in lines if cells[:2] == ["4", "12"]] == ["use"]
    assert [cells[-2:] for cells in lines if cells[:2] == ["3", "16"]] == [["tie,", "theory"]]


def test_comparison_closed_form_and_limits_are_printed(recommendation):
    text = words(printed(recommendation))
    difference = recommendation["comparison"][1]["test"] - recommendation["comparison"][0]["test"]
    assert f"0.2213 ± 0.0058 {difference:+.4f} ± 0.0040 12 ms 1.50x" in text
    assert "standard deviation over 3 fresh seeds" in text
    assert "suggested head_dim 16.6, nearest 3 heads x 16; one standard deviation either way is 5.87 to 47" in text
    assert "c = 12" in text
    assert "need not be the big model's" in text
    assert "45 finished, 12 pruned, 3 failed in 3 min 34 s" in text
    assert "Stopped: certain enough" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_80_columns_suffice(recommendation, terminal):
    text = printed(recommendation, terminal=terminal)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "theory" in text.split("3       16")[-1].split("\n")[0]  # no word of the table is broken


def test_off_a_terminal_there_are_no_control_characters(recommendation):
    text = printed(recommendation)
    assert all(character.isprintable() or character == "\n" for character in text)


def test_an_ascii_terminal_gets_ascii(recommendation):
    recommendation["data"]["name"] = "Preise €.csv"
    text = printed(recommendation, encoding="ascii")
    assert "0.2213 +/- 0.0058" in text
    assert "Preise \\u20ac.csv" in text


def test_names_are_no_markup_and_no_control_codes(recommendation):
    recommendation["data"]["name"] = "[bold red]x[/]\x1b[2J.csv"
    recommendation["caveats"] = ["[link=http://example.org]click[/link]"]
    text = printed(recommendation, terminal=True)
    assert "[bold red]x[/] [2J.csv" in text
    assert "[link=http://example.org]click[/link]" in words(text)
    assert "\x1b" not in text


def test_without_a_finished_trial_it_says_so(nothing):
    text = words(printed(nothing))
    assert "No recommendation: no trial has finished" in text
    assert "0 finished, 0 pruned, 2 failed" in text


def test_one_head_has_no_weighting(recommendation):
    recommendation.update(allocation={"n_heads": 1, "head_dim": 48}, confidence_set=[])
    for entry in recommendation["allocations"]:
        entry["in_confidence_set"] = entry["n_heads"] == 1
    text = words(printed(recommendation))
    assert "Use 1 head x 48 (d_model 48)" in text
    assert "weighting uniform" not in text
    assert "No other allocation is in the 90 % confidence set" in text


def test_missing_numbers_are_dashes(recommendation):
    recommendation["allocations"][0].update(mean=float("nan"), low=None, high=None, seconds_per_step=None)
    recommendation["comparison"][1].update(test=None, test_sd=None, seconds_per_step=None)
    text = printed(recommendation)
    assert "nan" not in text.lower()
    assert [line.split()[:5] for line in text.splitlines() if line.split()[:2] == ["48", "1"]] == [
        ["48", "1", "-", "-", "<"]
    ]


def test_an_almost_empty_recommendation_prints(recommendation):
    text = printed({"allocation": recommendation["allocation"]})
    assert "Use 4 heads x 12" in text
