"""What the terminal prints of findings, in narrow terminals and poor encodings."""

import io
from math import inf, nan

import pytest
from rich.console import Console

from archopt.report.laboratory import laboratory_summary


def report(**changes):
    finding = {
        "theorem": "4.2",
        "origin": "Stated",
        "claim": "the error does not rise",
        "predicted": "no rise",
        "measured": "a rise of +3.0% ± 0.5%",
        "note": "[bold]taken as it is[/bold]",
        "quantity": "rise",
        "interval": {"estimate": 0.03, "standard_error": 0.005, "low": nan, "high": inf},
        "allowed": [-inf, 0.01],
        "verdict": "does not hold",
        "rows": [],
        **changes,
    }
    setting = {
        "function": "additive", "intrinsic_dim": 2, "noise_sd": 0.5, "n_samples": 4000, "d_model": 48, "n_heads": 8,
        "kernel": "gaussian", "temperature": "best", "embedding": "curved", "axes": "random", "replicates": 20,
    }  # fmt: skip
    return {"setting": setting, "confidence": 0.95, "findings": [finding]}


def printed(plain, width=80, encoding="utf-8"):
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(laboratory_summary(plain, encoding=encoding))
    return stream.getvalue()


def test_setting_prediction_measurement_and_verdict_are_there():
    words = " ".join(printed(report()).split())
    assert words.startswith("additive, d = 2, noise sd 0.5, n = 4,000; 8 x 6 (D = 48), gaussian kernel at the best")
    assert "4.2 (stated): the error does not rise: does not hold" in words
    assert "predicted no rise" in words
    assert "measured a rise of +3.0% ± 0.5%" in words
    assert "whole 95 % interval" in words


def test_markup_in_texts_is_not_obeyed_and_empty_lines_are_left_out():
    assert "[bold]taken as it is[/bold]" in printed(report())
    assert "note" not in printed(report(note=""))


@pytest.mark.parametrize("width", [30, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, printed(report(), width).splitlines())) <= width


def test_an_ascii_terminal_gets_ascii():
    text = printed(report(), encoding="ascii")
    assert "+3.0% +/- 0.5%" in text
    assert text.isascii()


def test_a_number_as_temperature_is_named():
    plain = report()
    plain["setting"]["temperature"] = 0.25
    assert "at temperature 0.25" in " ".join(printed(plain).split())
