"""`archopt fit`: laws of the best head_dim in n and D, from runs."""

import json
from typing import Annotated

import typer

from archopt.cli.column_options import (
    BestOver,
    Direction,
    HeadDimColumn,
    HeadsColumn,
    Ignore,
    MetricColumn,
    MetricSdColumn,
    NoiseSd,
    NSamplesColumn,
    SeedColumn,
    WidthColumn,
    column_mapping,
)
from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.numbers import real_number, whole_number
from archopt.cli.runs_source import exactly_one, runs_of_campaign, runs_of_file, runs_of_studies


def fit_command(
    file: Annotated[
        str | None, typer.Argument(help="CSV or Parquet file, one row a run.", show_default=False, metavar="[FILE]")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Campaign of `archopt search` in place of a file.", metavar="CAMPAIGN")
    ] = None,
    study: Annotated[
        list[str] | None,
        typer.Option(help="Any Optuna study in --storage, as NAME=N or NAME=N,D; again for more.", metavar="NAME=N"),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="Of the campaign [its results folder] or the studies.", metavar="URL")
    ] = None,
    n_samples: NSamplesColumn = None,
    d_model: WidthColumn = None,
    n_heads: HeadsColumn = None,
    head_dim: HeadDimColumn = None,
    metric: MetricColumn = None,
    direction: Direction = None,
    metric_sd: MetricSdColumn = None,
    seed_column: SeedColumn = None,
    best_over: BestOver = None,
    ignore: Ignore = None,
    noise_sd: NoiseSd = None,
    family: Annotated[
        str | None, typer.Option(help="table or text: for what the theory predicts [the campaign's; table].")
    ] = None,
    intrinsic_dim: Annotated[
        float | None, typer.Option(parser=real_number, help="d of the data [a range by family].", metavar="D")
    ] = None,
    confidence: Annotated[
        float, typer.Option(parser=real_number, help="Of the laws' intervals; cells have 90 %.")
    ] = 0.9,
    bootstrap: Annotated[
        int, typer.Option(parser=whole_number, help="Refits to resampled runs, for a second interval.", metavar="N")
    ] = 0,
    seed: Annotated[int, typer.Option(parser=whole_number, help="Of all draws.")] = 0,
    plan: Annotated[bool, typer.Option(help="Simulate how much more data would tell laws apart.")] = True,
    out: Annotated[str | None, typer.Option(help="Write the law here, for `recommend --law`.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Fit how the best head_dim grows with n and D, and hold it against the theory.

    Example: archopt fit runs.csv --metric val_loss --direction minimize --out law.json
    """
    from archopt.errors import OptionError
    from archopt.laws import fit_scaling_law
    from archopt.report.files import json_ready
    from archopt.report.numbers import printable
    from archopt.report.scaling_law import print_law

    which = exactly_one([("FILE", file), ("--name", name), ("--study", study)])
    columns = column_mapping(n_samples, d_model, n_heads, head_dim, metric, metric_sd, seed_column)
    if which == "FILE":
        frame = runs_of_file(str(file), columns=columns, direction=direction)
    elif any((*columns.values(), direction, best_over, ignore)):
        raise OptionError(f"options of columns and --direction are for a FILE, but got {which}, which knows its own")
    elif which == "--study":
        frame = runs_of_studies(study or (), storage)
    else:
        frame, known = runs_of_campaign(str(name), storage)
        family = family or known
    with said_when_interrupted():
        law = fit_scaling_law(
            frame,
            noise_sd=noise_sd,
            best_over=best_over or (),
            ignore=ignore or (),
            direction=direction or "minimize",
            family=family or "table",
            intrinsic_dim=intrinsic_dim,
            confidence=confidence,
            n_bootstrap=bootstrap,
            seed=seed,
            plan=plan,
            source=str(file or name or ",".join(study or ())),
        )
    if out is not None:
        law.save(out)
    if as_json:
        typer.echo(json.dumps(json_ready(law.to_dict())))
    else:
        print_law(law)
        if out is not None:
            typer.echo(f"Written to {printable(out)}.")
