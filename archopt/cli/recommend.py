"""`archopt recommend`: an allocation for a size that need not be tried, or from an Optuna study's trials."""

import json
from typing import TYPE_CHECKING, Annotated

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
from archopt.cli.limit_options import HEAD_DIM_MULTIPLE_OF, HEADS_MULTIPLE_OF
from archopt.cli.numbers import real_number, whole_number
from archopt.cli.runs_source import exactly_one, runs_of_campaign, runs_of_file
from archopt.cli.study_recommendation import print_study_recommendation, refuse_beside_study

if TYPE_CHECKING:
    from archopt.laws import ScalingLaw


def recommend_command(
    d_model: Annotated[
        int | None,
        typer.Option(parser=whole_number, help="Total attention width D [with --study: as it says].", metavar="D"),
    ] = None,
    samples: Annotated[
        float | None,
        typer.Option(parser=real_number, help="n: rows of a table, tokens of a text; such as 1e9.", metavar="N"),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(help="Optuna study in --storage, archopt's own or not: from its trials.", metavar="NAME"),
    ] = None,
    law: Annotated[str | None, typer.Option(help="Law that `archopt fit --out` wrote.", metavar="FILE")] = None,
    name: Annotated[str | None, typer.Option(help="Campaign to fit a law to.", metavar="CAMPAIGN")] = None,
    data: Annotated[str | None, typer.Option(help="File of runs to fit a law to.", metavar="FILE")] = None,
    storage: Annotated[
        str | None, typer.Option(help="Of the study, or the campaign [its results folder].", metavar="URL")
    ] = None,
    basis: Annotated[
        str | None, typer.Option(help="theory, law or both, weighed by how sure they are [both with a law].")
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="table or text, for the theory's constant [the law's; text].")
    ] = None,
    intrinsic_dim: Annotated[
        float | None, typer.Option(parser=real_number, help="d of the data [the family's].", metavar="D")
    ] = None,
    constant: Annotated[
        float | None, typer.Option(parser=real_number, help="Of the theory's log-law [the family's].", metavar="C")
    ] = None,
    head_dim_multiple_of: Annotated[int | None, HEAD_DIM_MULTIPLE_OF] = None,
    heads_multiple_of: Annotated[int | None, HEADS_MULTIPLE_OF] = None,
    n_samples_column: NSamplesColumn = None,
    d_model_column: WidthColumn = None,
    n_heads: HeadsColumn = None,
    head_dim: HeadDimColumn = None,
    metric: MetricColumn = None,
    direction: Direction = None,
    metric_sd: MetricSdColumn = None,
    seed_column: SeedColumn = None,
    best_over: BestOver = None,
    ignore: Ignore = None,
    noise_sd: NoiseSd = None,
    confidence: Annotated[float, typer.Option(parser=real_number, help="Of the interval and the set.")] = 0.9,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Recommend how to split D into heads; no trial is run.

    For n samples, from theory, a fitted law, or both. Example: archopt recommend --d-model 512 --samples 1e9

    From the trials of any Optuna study, where --noise-sd, --confidence and, if the study does not say it, --d-model
    apply. Example: archopt recommend --storage sqlite:///study.db --study NAME
    """
    from archopt.errors import OptionError
    from archopt.laws import recommend_size
    from archopt.report.scaling_law import print_size

    columns = column_mapping(n_samples_column, d_model_column, n_heads, head_dim, metric, metric_sd, seed_column)
    if study is not None:
        for_sizes = {
            "--samples": samples,
            "--law": law,
            "--name": name,
            "--data": data,
            "--basis": basis,
            "--family": family,
            "--intrinsic-dim": intrinsic_dim,
            "--constant": constant,
            "--head-dim-multiple-of": head_dim_multiple_of,
            "--heads-multiple-of": heads_multiple_of,
            "options of columns": next((column for column in columns.values() if column is not None), None),
            "--direction": direction,
            "--best-over": best_over,
            "--ignore": ignore,
        }
        refuse_beside_study([option for option, value in for_sizes.items() if value is not None])
        print_study_recommendation(
            study, storage, d_model=d_model, noise_sd=noise_sd, confidence=confidence, as_json=as_json
        )
        return
    if d_model is None or samples is None:
        raise OptionError("give --d-model and --samples, for a size; or --storage and --study, for trials that ran")
    if storage is not None and name is None:
        raise OptionError("--storage holds trials: say which with --study, or --name for a campaign over several sizes")
    fitted = None
    if (law, name, data) != (None, None, None):
        which = exactly_one([("--law", law), ("--name", name), ("--data", data)])
        if which != "--data" and any((*columns.values(), direction, best_over, ignore)):
            raise OptionError(
                f"options of columns and --direction are for --data, but got {which}, which knows its own"
            )
        if which == "--law":
            if noise_sd is not None:
                raise OptionError("--noise-sd is for fitting, but --law is fitted already: use --data or --name")
            from archopt.laws import ScalingLaw

            fitted = ScalingLaw.load(str(law))
        else:
            if which == "--data":
                frame = runs_of_file(str(data), columns=columns, direction=direction)
            else:
                frame, known = runs_of_campaign(str(name), storage)
                family = family or known
            fitted = _fitted(frame, best_over, ignore, direction, noise_sd, family, intrinsic_dim, str(data or name))
    chosen = family or (fitted.provenance.get("family") if fitted is not None else None) or "text"
    found = recommend_size(
        d_model,
        samples,
        law=fitted,
        basis=basis,
        family=str(chosen),
        intrinsic_dim=intrinsic_dim,
        constant=constant,
        head_dim_multiple_of=1 if head_dim_multiple_of is None else head_dim_multiple_of,
        n_heads_multiple_of=1 if heads_multiple_of is None else heads_multiple_of,
        confidence=confidence,
    )
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        print_size(found)


def _fitted(
    frame: object,
    best_over: list[str] | None,
    ignore: list[str] | None,
    direction: str | None,
    noise_sd: float | None,
    family: str | None,
    intrinsic_dim: float | None,
    source: str,
) -> "ScalingLaw":
    from archopt.laws import fit_scaling_law

    with said_when_interrupted():
        return fit_scaling_law(
            frame,  # type: ignore[arg-type]  # it checks
            noise_sd=noise_sd,
            best_over=best_over or (),
            ignore=ignore or (),
            direction=direction or "minimize",
            family=family or "text",
            intrinsic_dim=intrinsic_dim,
            plan=False,
            source=source,
        )
