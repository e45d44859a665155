"""`archopt watch`: a campaign that runs elsewhere, as its own live view shows it."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.runs_source import storage_of_campaign

if TYPE_CHECKING:
    from archopt.campaign.watch import Watched


def watch_command(
    name: Annotated[str, typer.Argument(help="Of the campaign, as its search prints it.", show_default=False)],
    storage: Annotated[
        str | None, typer.Option(help="Optuna storage URL [archopt-results/NAME/study.db].", metavar="URL")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, of the last look, and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing before the end.")] = False,
) -> int:
    """Show a campaign while it runs, here or on another machine, until it is over; it only reads.

    Example: archopt watch prices-d96 --storage postgresql+psycopg://me@host/archopt
    """
    import optuna

    from archopt.campaign.watch import watch_campaign
    from archopt.report.files import json_ready

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with said_when_interrupted():
        watched = watch_campaign(storage_of_campaign(name, storage), name, once=once, quiet=quiet)
    if as_json:
        typer.echo(json.dumps(json_ready(watched.to_dict())))
    elif once:
        typer.echo("\n".join(_lines(watched)))
    else:
        typer.echo(f"Campaign {watched.campaign}: {watched.because}")
    return 0


def _lines(watched: "Watched") -> list[str]:
    from archopt.report.search_state import (
        best_in_words,
        counts_in_words,
        times_in_words,
        trial_in_words,
        workers_in_words,
    )

    state = watched.state
    lines = [
        f"campaign {watched.campaign}{f': {watched.because}' if watched.is_over else ''}",
        counts_in_words(state, watched.n_trials),
        best_in_words(state),
        times_in_words(state, watched.n_trials, watched.timeout_seconds),
        workers_in_words(state.workers) or "no process trains for it at the moment",
    ]
    return [*lines, *(trial_in_words(trial) for trial in state.latest)]
