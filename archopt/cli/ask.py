"""`archopt ask`: one configuration to run, for shells and programs in other languages."""

import json
from typing import Annotated, Any

import typer

from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.limit_options import HEAD_DIM_MAX, HEAD_DIM_MIN, HEAD_DIM_MULTIPLE_OF, HEADS_MULTIPLE_OF
from archopt.cli.numbers import real_number, whole_number


def ask_command(
    storage: Annotated[str, typer.Option(help="Optuna storage URL, such as sqlite:///study.db.", metavar="URL")],
    study: Annotated[str, typer.Option(help="Of this name; the first ask makes it.", metavar="NAME")],
    d_model: Annotated[
        int | None,
        typer.Option(parser=whole_number, help="Total attention width D; the first ask needs it.", metavar="D"),
    ] = None,
    samples: Annotated[
        float | None,
        typer.Option(parser=real_number, help="n: rows of a table, tokens of a text; such as 2e6.", metavar="N"),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(help="table or text, for the theory's constant [table]."),
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help="minimize or maximize what is told as --value [minimize].")
    ] = None,
    head_dim_min: Annotated[int | None, HEAD_DIM_MIN] = None,
    head_dim_max: Annotated[int | None, HEAD_DIM_MAX] = None,
    head_dim_multiple_of: Annotated[int | None, HEAD_DIM_MULTIPLE_OF] = None,
    heads_multiple_of: Annotated[int | None, HEADS_MULTIPLE_OF] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            help="Another parameter, again for more: NAME=LOW:HIGH, NAME=LOW:HIGH:log, NAME=LOW:HIGH:int, or "
            "NAME=CHOICE,CHOICE.",
            metavar="NAME=...",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(parser=whole_number, help="With a trial's number it fixes its draws [0].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, as without it.")] = False,
) -> None:
    """Print a configuration to run, as a JSON object; `archopt tell` takes how it went.

    Example: archopt ask --storage sqlite:///study.db --study mine --d-model 512 --samples 2e6
    --param learning_rate=1e-4:1e-2:log --param dropout=0,0.1,0.2 --param n_layers=2:6:int

    Later asks need only --storage and --study; several processes may ask at once. The object's "trial" is for
    tell, "allocation" the heads, "params" every parameter, "replicate" the seed to use.
    """
    import optuna

    from archopt.campaign.ask import ask

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    given: dict[str, Any] = {
        "d_model": d_model,
        "samples": samples,
        "family": family,
        "direction": direction,
        "head_dim_min": head_dim_min,
        "head_dim_max": head_dim_max,
        "head_dim_multiple_of": head_dim_multiple_of,
        "heads_multiple_of": heads_multiple_of,
        "seed": seed,
        "param": tuple(param) if param else None,
    }
    with said_when_interrupted():
        asked = ask(storage, study, **{name: value for name, value in given.items() if value is not None})
    typer.echo(json.dumps(asked.to_dict(), allow_nan=False))
