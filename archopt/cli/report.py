"""`archopt report`: the report of a search, a campaign or any study, from its storage."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.numbers import real_number, whole_number


def report_command(
    name: Annotated[str, typer.Argument(help="Of the search, the campaign or the Optuna study.", show_default=False)],
    storage: Annotated[
        str | None,
        typer.Option(help="Optuna storage URL [archopt-results/NAME/study.db].", metavar="URL"),
    ] = None,
    out: Annotated[str | None, typer.Option(help="Output folder [archopt-results/NAME].", metavar="FOLDER")] = None,
    law: Annotated[
        str | None, typer.Option(help="A law fitted to other sizes, to show beside the trials.", metavar="FILE")
    ] = None,
    d_model: Annotated[
        int | None,
        typer.Option(parser=whole_number, help="D, where a study of your own does not say it.", metavar="D"),
    ] = None,
    noise_sd: Annotated[
        float | None,
        typer.Option(parser=real_number, help="Of one trial, where it is known.", metavar="SD"),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(parser=real_number, help="Of the set of allocations that are not told apart [the search's; 0.9]."),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="PNG files of the figures, for slides.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Write the report: one HTML file that opens offline, and its figures as PNG files.

    Of a search or a campaign, finished or running, or of any Optuna study with a head parameter.

    Example: archopt report digits-d48
    """
    import optuna

    from archopt.campaign.reporting import report
    from archopt.laws import ScalingLaw
    from archopt.report.files import json_ready

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    fitted = None if law is None else ScalingLaw.load(law)
    with said_when_interrupted(), _without_collecting():
        written = report(
            name,
            storage=storage,
            out=out,
            law=fitted,
            d_model=d_model,
            noise_sd=noise_sd,
            confidence=confidence,
            pictures=pictures,
        )
    if as_json:
        typer.echo(json.dumps(json_ready(written.to_dict())))
        return
    pages = [path for path in written.files if path.suffix == ".html"]
    n_pictures = len(written.files) - len(pages)
    beside = f", {len(pages) - 1} reports of its cells" if len(pages) > 1 else ""
    beside += f", {n_pictures} pictures in {written.files[1].parent}" if n_pictures else ""
    typer.echo(f"Written: {pages[0]}{beside}")


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Thousands of trials are read once and kept: looking for garbage among them doubles the time that this takes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
