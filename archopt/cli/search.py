"""`archopt search`: start or resume a search."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from archopt.cli.limit_options import HEAD_DIM_MAX, HEAD_DIM_MIN, HEAD_DIM_MULTIPLE_OF, HEADS_MULTIPLE_OF
from archopt.cli.numbers import Sizes, real_number, sizes, whole_number

if TYPE_CHECKING:
    from archopt.campaign import SearchOptions


def search_command(
    data: Annotated[
        str,
        typer.Argument(
            help="CSV or Parquet file (with --target), any other file (as text), sklearn:NAME, or text:python-topics.",
            show_default=False,
        ),
    ],
    d_model: Annotated[
        Sizes,
        typer.Option(
            parser=sizes, help="Total attention width D, split into heads; several make a campaign.", metavar="D,..."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="Column to predict.", metavar="COLUMN")] = None,
    task: Annotated[str, typer.Option(help="regression, classification, or auto: read it off the target.")] = "auto",
    samples: Annotated[
        Sizes | None,
        typer.Option(
            parser=sizes, help="Training rows (bytes of text) to use; several make a campaign.", metavar="N,..."
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(parser=whole_number, help="Budget in trials, of the whole campaign.", metavar="N")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=real_number,
            help="Budget in seconds, of the whole campaign [210 unless --trials].",
            metavar="SECONDS",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(parser=whole_number, help="Steps of every trial [300; text 400].", metavar="N"),
    ] = None,
    head_dim_min: Annotated[int, HEAD_DIM_MIN] = 1,
    head_dim_max: Annotated[int | None, HEAD_DIM_MAX] = None,
    head_dim_multiple_of: Annotated[int, HEAD_DIM_MULTIPLE_OF] = 1,
    heads_multiple_of: Annotated[int, HEADS_MULTIPLE_OF] = 1,
    max_seconds_per_step: Annotated[
        float | None,
        typer.Option(parser=real_number, help="Allocations with slower training steps are out.", metavar="SECONDS"),
    ] = None,
    weighting: Annotated[
        str, typer.Option(help="Schemes to search, with commas.")
    ] = "uniform,geometric,fibonacci,learned",
    learning_rate: Annotated[
        str | None, typer.Option(help="Rates to search, with commas [4 for tables, 3 for text].", metavar="RATES")
    ] = None,
    weight_decay: Annotated[
        str | None, typer.Option(help="One for all trials, or several to search [1; text 0.1].", metavar="NUMBERS")
    ] = None,
    warmup: Annotated[
        str | None, typer.Option(help="Share of the steps: one, or several to search [0.05].", metavar="SHARES")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="rmse, mae; log_loss, error_rate; nats_per_byte, bits_per_byte. Default: the first."),
    ] = None,
    valid: Annotated[
        str | None, typer.Option(help="File to validate and test on, instead of parts of DATA.", metavar="FILE")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column whose groups stay on one side of every split.", metavar="COLUMN")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column that orders the rows: past trains, future tests.", metavar="COLUMN")
    ] = None,
    seed: Annotated[int, typer.Option(parser=whole_number, help="Of splits, training and proposals.")] = 0,
    replicates: Annotated[
        int,
        typer.Option(parser=whole_number, help="Seeds that every configuration gets at least.", metavar="N"),
    ] = 1,
    workers: Annotated[
        int | None, typer.Option(parser=whole_number, help="Training processes [one a core].", metavar="N")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="Optuna storage URL [a SQLite file in the output folder].", metavar="URL")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the campaign [from DATA and D, or DATA alone where sizes are several].")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    attention: Annotated[str, typer.Option(help="Kernel: sdpa, xformers, blocked, explicit or auto.")] = "auto",
    precision: Annotated[str, typer.Option(help="Of a text model's products: float32 or bfloat16.")] = "float32",
    out: Annotated[str | None, typer.Option(help="Output folder [archopt-results/NAME].", metavar="FOLDER")] = None,
    confidence: Annotated[
        float, typer.Option(parser=real_number, help="Of the set of allocations that are not told apart.")
    ] = 0.9,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Search how to split D into heads for a data set; the same command again resumes.

    Example: archopt search sklearn:digits --d-model 48

    Several n or D make one campaign, for the law of the best head_dim: --samples 300,1e3 --d-model 48,96
    """
    import optuna

    from archopt.campaign import SearchOptions

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # our own progress says the same
    options: SearchOptions = {
        "target": target,
        "task": task,  # type: ignore[typeddict-item]  # it checks
        "n_trials": trials,
        "timeout_seconds": timeout,
        "n_steps": steps,
        "min_head_dim": head_dim_min,
        "max_head_dim": head_dim_max,
        "head_dim_multiple_of": head_dim_multiple_of,
        "n_heads_multiple_of": heads_multiple_of,
        "max_seconds_per_step": max_seconds_per_step,
        "weighting": weighting,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "warmup": warmup,
        "metric": metric,
        "valid": valid,
        "group": group,
        "time": time,
        "seed": seed,
        "replicates": replicates,
        "n_workers": workers,
        "storage": storage,
        "name": name,
        "device": device,
        "attention": attention,
        "precision": precision,
        "out": out,
        "confidence": confidence,
    }
    widths, ns = d_model.numbers, () if samples is None else samples.numbers
    if len(widths) > 1 or len(ns) > 1:
        return _grid(data, widths, ns, options, as_json=as_json, quiet=quiet)
    return _one_cell(data, widths[0], ns[0] if ns else None, options, as_json=as_json, quiet=quiet)


def _one_cell(
    data: str, d_model: int, n_samples: int | None, options: "SearchOptions", *, as_json: bool, quiet: bool
) -> int:
    from archopt.campaign import search
    from archopt.errors import CampaignFailed
    from archopt.report.files import json_ready
    from archopt.report.numbers import printable
    from archopt.report.text import print_summary

    found = search(data, d_model, n_samples=n_samples, quiet=quiet, **options)
    if as_json:
        typer.echo(json.dumps(json_ready(found.to_dict())))
    else:
        print_summary(found.to_dict())
    not_written = found.details["search"].get("not_written")
    if not_written is not None:
        raise CampaignFailed(not_written)  # after the answer: it is known, whatever the disk says
    if not as_json:
        folder = printable(found.details["search"]["folder"])
        typer.echo(f"Written to {folder}: report.html, figures, recommendation.json, trials.csv")
    return 130 if found.details["search"]["interrupted"] else 0


def _grid(
    data: str,
    d_models: Sequence[int],
    n_samples: Sequence[int],
    options: "SearchOptions",
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    from archopt.campaign import search_grid
    from archopt.errors import CampaignFailed
    from archopt.report.files import json_ready
    from archopt.report.grid_text import print_grid_summary
    from archopt.report.numbers import printable

    found = search_grid(data, d_models, n_samples, quiet=quiet, **options)
    plain = found.to_dict()
    if as_json:
        typer.echo(json.dumps(json_ready(plain)))
    else:
        print_grid_summary(plain)
    not_written = found.search.get("not_written")
    if not_written is not None:
        raise CampaignFailed(not_written)
    if not as_json:
        typer.echo(
            f"Written to {printable(found.folder)}: report.html, figures, law.json, cells.csv, and for each cell "
            "report.html, recommendation.json, trials.csv"
        )
    return 130 if found.interrupted else 0
