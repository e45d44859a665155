"""`archopt worker`: train for a campaign that a search on another machine runs."""

import json
from typing import Annotated

import typer

from archopt.cli.numbers import real_number, whole_number


def worker_command(
    storage: Annotated[str, typer.Option(help="Optuna storage URL of the campaign.", metavar="URL")],
    name: Annotated[str, typer.Option(help="Of the campaign, as its search prints it.")],
    data: Annotated[
        str | None, typer.Option(help="The data here [where the search has them].", metavar="FILE", show_default=False)
    ] = None,
    valid: Annotated[
        str | None, typer.Option(help="The second file here [likewise].", metavar="FILE", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(parser=whole_number, help="Training processes [one a core, or a GPU].", metavar="N")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(parser=real_number, help="Leave after so long [at the end].", metavar="SECONDS")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Join a campaign from another machine, and train its trials until it is over; leave at any time with Ctrl-C.

    Example: archopt worker --storage postgresql+psycopg://me@host/archopt --name prices-d96
    """
    import optuna

    from archopt.campaign import join_campaign
    from archopt.report.numbers import count, duration, printable

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    done = join_campaign(storage, name, data=data, valid=valid, n_workers=workers, timeout_seconds=timeout, quiet=quiet)
    if as_json:
        typer.echo(json.dumps(done.to_dict()))
    else:
        typer.echo(
            f"{count(done.n_trials, 'trial')} for campaign {printable(done.campaign)} in {duration(done.seconds)}; "
            f"left: {printable(done.stopped_because)}"
        )
    return 130 if done.interrupted else 0
