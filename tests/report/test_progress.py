import contextlib
import io
import json
import sys
import time

import pytest
from rich.console import Console

from archopt.report.progress import REFRESHES_PER_SECOND, SearchProgress
from archopt.report.search_state import (
    EndedTrial,
    SearchState,
    Worker,
    counts_in_words,
    plain_line,
    seconds_left,
    share_done,
    workers_in_words,
)


def shown(updates, *, terminal=False, **options):
    """What is drawn when the states come at the stated seconds."""
    stream, now = io.StringIO(), [0.0]
    console = Console(file=stream, width=100, force_terminal=terminal, highlight=False)
    with SearchProgress(console=console, clock=lambda: now[0], **options) as progress:
        for second, state in updates:
            now[0] = second
            progress.update(state)
    return stream.getvalue()


def states(n, every_seconds=1.0):
    return [
        (k * every_seconds, SearchState(n_finished=k, elapsed_seconds=k * every_seconds, allocation=(4, 12)))
        for k in range(n)
    ]


def test_off_a_terminal_a_line_comes_every_ten_seconds_and_the_first_and_last_always():
    lines = shown(states(36), n_trials=50).splitlines()
    assert [line.split()[2] for line in lines] == ["0", "10", "20", "30", "35"]
    assert all(line.startswith("archopt search: ") for line in lines)


def test_a_single_state_is_one_line():
    assert len(shown(states(1)).splitlines()) == 1
    assert shown([]) == ""


def test_a_line_says_trials_best_and_time_left():
    state = SearchState(
        n_finished=20, n_pruned=4, n_failed=1, n_running=2, elapsed_seconds=50.0, allocation=(4, 12), p_best=0.58
    )
    assert plain_line(state, n_trials=100) == (
        "archopt search: 25 of 100 trials, 4 pruned, 1 failed, 2 running; current best 4 heads x 12, best with 58 % "
        "probability; 50 s, at most 2 min 30 s left"
    )
    assert "no trial has finished yet" in plain_line(SearchState(n_failed=2))


@pytest.mark.parametrize(
    ("state", "n_trials", "timeout_seconds", "expected"),
    [
        (SearchState(n_finished=10, elapsed_seconds=20.0), 30, None, 40.0),
        (SearchState(n_finished=10, elapsed_seconds=20.0), 30, 50.0, 30.0),
        (SearchState(n_finished=10, elapsed_seconds=20.0), 11, 50.0, 2.0),
        (SearchState(n_finished=10, n_earlier=10, elapsed_seconds=5.0), 30, None, None),
        (SearchState(n_finished=15, n_earlier=10, elapsed_seconds=5.0), 30, None, 15.0),
        (SearchState(elapsed_seconds=60.0), None, 50.0, 0.0),
        (SearchState(n_finished=3, elapsed_seconds=9.0), None, None, None),
        (SearchState(n_finished=3, elapsed_seconds=9.0, seconds_left=7.0), 30, 100.0, 7.0),
    ],
)
def test_time_left_is_the_nearer_end_of_the_budget(state, n_trials, timeout_seconds, expected):
    assert seconds_left(state, n_trials, timeout_seconds) == expected


def test_the_share_done_stays_within_one():
    assert share_done(SearchState(n_finished=5, elapsed_seconds=30.0), 20, 60.0) == 0.5
    assert share_done(SearchState(n_finished=50), 20, None) == 1.0
    assert share_done(SearchState(n_finished=50), None, None) is None


def test_quiet_shows_nothing():
    assert shown(states(30), quiet=True) == ""
    assert shown(states(30), quiet=True, terminal=True) == ""


def test_on_a_terminal_the_line_is_live_and_the_last_state_stays():
    text = shown(states(5), terminal=True, n_trials=50)
    assert "\x1b[" in text
    assert "4 of 50 trials" in text.splitlines()[-1]


def test_notes_stay_above_and_are_no_markup():
    stream = io.StringIO()
    with SearchProgress(console=Console(file=stream, width=100)) as progress:
        progress.note("subsampled [red]50,000[/red] rows\x1b[2J")
    assert stream.getvalue() == "subsampled [red]50,000[/red] rows [2J\n"


def test_standard_output_holds_nothing_but_the_result(capsys):
    with SearchProgress(n_trials=3) as progress:
        progress.update(SearchState(n_finished=1))
        print(json.dumps({"allocation": None}))
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"allocation": None}
    assert "1 of 3 trials" in captured.err


def test_the_terminal_is_given_back_after_an_interrupt():
    stream = io.StringIO()
    before = sys.stdout, sys.stderr
    console = Console(file=stream, width=100, force_terminal=True)
    with contextlib.suppress(KeyboardInterrupt), SearchProgress(console=console) as progress:
        progress.update(SearchState(n_finished=7))
        raise KeyboardInterrupt
    assert (sys.stdout, sys.stderr) == before
    assert stream.getvalue().count("\x1b[?25h") == stream.getvalue().count("\x1b[?25l") == 1  # the cursor is back
    assert "7 trials" in stream.getvalue().splitlines()[-1]


TRIALS = tuple(EndedTrial(number, (4, 12), "finished", 0.0671, 3.2, ended_at=number) for number in (19, 18, 17))
WORKERS = (
    Worker("here", 1, 2, here=True),
    Worker("node[red]7\x1b[2J", 5, 16),
    Worker("node8", 5, 16),
    Worker("z", 1, 1),
)


def test_a_line_names_the_last_trial_and_workers_of_other_machines():
    state = SearchState(n_finished=20, elapsed_seconds=50.0, latest=TRIALS, workers=WORKERS[:2])
    line = plain_line(state, n_trials=100, title="archopt watch x")
    assert line.startswith(
        "archopt watch x: 20 of 100 trials; no trial has finished yet; last trial 19: 4 heads x 12, "
    )
    assert "workers: 2 here, 16 on node[red]7 [2J;" in line
    assert "workers" not in plain_line(SearchState(n_finished=20, workers=WORKERS[:1]))


def test_many_machines_are_summed_up():
    assert workers_in_words(WORKERS) == "workers: 2 here, 16 on node8, 16 on node[red]7 [2J, 1 on 1 more machine"
    assert workers_in_words(()) == ""


def test_of_several_cells_those_with_an_answer_are_counted():
    state = SearchState(n_finished=7, n_cells=6, n_cells_answered=2, cell="n = 300, D = 48", allocation=(4, 12))
    assert counts_in_words(state, 240) == "7 of 240 trials, 2 of 6 cells with an answer"
    assert "; n = 300, D = 48: current best 4 heads x 12; " in plain_line(state, 240)


@pytest.mark.parametrize("width", [20, 40, 79, 200])
def test_what_is_drawn_fits_any_terminal_and_follows_its_width(width):
    state = SearchState(
        n_finished=20, n_failed=3, elapsed_seconds=50.0, allocation=(4, 12), p_best=0.5, latest=TRIALS, workers=WORKERS
    )
    console = Console(file=io.StringIO(), width=300, height=12, force_terminal=True, color_system=None)
    progress = SearchProgress(n_trials=100, title="archopt watch [bold]x", console=console)
    progress.update(state)
    console.file.truncate(0)
    console.width = width  # as after a change of size
    console.print(progress._drawn())
    drawn = console.file.getvalue().lstrip("\0")
    assert max(map(len, drawn.splitlines())) <= width
    assert "[bold]x" in drawn.replace("\n", "")
    assert "\x1b" not in drawn
    assert ("trial 18" in drawn) is (width >= 76)


def test_under_ci_a_terminal_gets_plain_lines(monkeypatch, capsys):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes anything for a terminal
    with SearchProgress(n_trials=3) as progress:
        progress.update(SearchState(n_finished=1))
    assert capsys.readouterr().err.count("\n") == 1


def test_drawing_takes_little_of_the_processor():
    state = SearchState(n_finished=1_000, elapsed_seconds=500.0, allocation=(4, 12), latest=TRIALS, workers=WORKERS)
    console = Console(file=io.StringIO(), width=100, height=30, force_terminal=True)
    progress = SearchProgress(n_trials=2_000, console=console)
    progress.update(state)
    console.print(progress._drawn())
    began = time.process_time()
    for _ in range(20):
        console.print(progress._drawn())
    seconds = (time.process_time() - began) / 20
    assert REFRESHES_PER_SECOND * seconds < 0.05  # of one core; measured: 0.01
