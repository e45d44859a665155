"""`archopt tell`: how a trial that was asked for goes on, and ends."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.numbers import real_number, whole_number


def tell_command(
    storage: Annotated[str, typer.Option(help="Optuna storage URL, such as sqlite:///study.db.", metavar="URL")],
    study: Annotated[str, typer.Option(help="That was asked.", metavar="NAME")],
    trial: Annotated[int, typer.Option(parser=whole_number, help="Number that ask printed.", metavar="N")],
    value: Annotated[
        float | None,
        typer.Option(parser=real_number, help="The final value; nan is a failure: it diverged.", metavar="VALUE"),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="A value on the way; again for more. Steps have one unit in a study.", metavar="STEP=VALUE"),
    ] = None,
    hdi: Annotated[
        list[str] | None,
        typer.Option(help="Head diversity (raw HDI, mean over layers) at a step; again for more.", metavar="STEP=HDI"),
    ] = None,
    failed: Annotated[str | None, typer.Option(help="It has no value, and why.", metavar="REASON")] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            help="Of a failure: error or diverged count against the configuration; infeasible bars its heads for good; "
            "interrupted blames nothing, and it is asked for again [infeasible where REASON says out of memory, else "
            "error].",
            metavar="KIND",
        ),
    ] = None,
    pruned: Annotated[bool, typer.Option("--pruned", help="It was stopped, as tell had said.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, as without it.")] = False,
) -> None:
    """Tell how a trial goes on; prints a JSON object whose "prune" says whether to stop it.

    Example: archopt tell --storage sqlite:///study.db --study mine --trial 3 --at 100=0.9 --at 200=0.7

    At the end: --value 0.31, or --failed "CUDA out of memory", or --pruned. A trial runs until it is told how it
    ended; of one whose machine died: --failed "gave up" --fault interrupted. To tell the same again changes nothing.
    """
    import optuna

    from archopt.campaign.tell import News, tell

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    news = News(
        reports=_by_step("--at", at or ()),
        diversity=_by_step("--hdi", hdi or ()),
        value=value,
        failed=failed,
        fault=fault,
        pruned=pruned,
    )
    with said_when_interrupted():
        told = tell(storage, study, trial, news)
    typer.echo(json.dumps(told.to_dict(), allow_nan=False))


def _by_step(option: str, given: Sequence[str]) -> dict[int, float]:
    """Numbers by step."""
    found: dict[int, float] = {}
    for text in given:
        step, equals, number = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{option} is STEP=NUMBER, such as {option} 100=0.9, but got {text[:40]!r}")
        at = whole_number(step)
        if at in found:
            raise typer.BadParameter(f"{option} has step {at} twice")
        found[at] = real_number(number)
    return found
