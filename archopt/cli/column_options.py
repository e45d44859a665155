"""Options that say which column of a file of runs is what; `fit` and `recommend` share them."""

from typing import Annotated

import typer

from archopt.cli.numbers import real_number

NSamplesColumn = Annotated[
    str | None, typer.Option(help="Column of n, or one number for all rows [n_samples].", metavar="COLUMN")
]
WidthColumn = Annotated[
    str | None, typer.Option(help="Column of D, or one number for all rows [d_model].", metavar="COLUMN")
]
HeadsColumn = Annotated[str | None, typer.Option(help="Column of H [n_heads].", metavar="COLUMN")]
HeadDimColumn = Annotated[str | None, typer.Option(help="Column of d_k [head_dim].", metavar="COLUMN")]
MetricColumn = Annotated[str | None, typer.Option(help="Column of the metric [loss].", metavar="COLUMN")]
Direction = Annotated[str | None, typer.Option(help="Of the metric: minimize or maximize. Needed unless it is loss.")]
MetricSdColumn = Annotated[
    str | None, typer.Option(help="Column of the metric's standard error, if there is one [loss_sd].", metavar="COLUMN")
]
SeedColumn = Annotated[str | None, typer.Option(help="Column that tells repeated runs apart [seed].", metavar="COLUMN")]
BestOver = Annotated[
    list[str] | None,
    typer.Option(
        help="Column, such as a learning rate, of which the best value counts; again for more.", metavar="COLUMN"
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="Column without meaning here; the others make groups. Again for more.", metavar="COLUMN"),
]
NoiseSd = Annotated[
    float | None,
    typer.Option(parser=real_number, help="Standard deviation of one run [from repeated runs].", metavar="SD"),
]


def column_mapping(
    n_samples: str | None,
    d_model: str | None,
    n_heads: str | None,
    head_dim: str | None,
    metric: str | None,
    metric_sd: str | None,
    seed: str | None,
) -> dict[str, str | None]:
    """As `archopt.laws.columns.map_columns` takes it."""
    return {
        "n_samples": n_samples,
        "d_model": d_model,
        "n_heads": n_heads,
        "head_dim": head_dim,
        "loss": metric,
        "loss_sd": metric_sd,
        "seed": seed,
    }
