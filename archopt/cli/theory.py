"""`archopt theory`: hold the theorems against a regression function that is known."""

import json
import sys
from typing import Annotated

import typer

from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.numbers import real_number, whole_number


def theory_command(
    function: Annotated[
        str, typer.Option(help="True regression function: friedman, additive, radial, sparse, rough.", metavar="NAME")
    ] = "friedman",
    intrinsic_dim: Annotated[
        int, typer.Option(parser=whole_number, help="d, independent dimensions of the inputs.", metavar="N")
    ] = 5,
    noise: Annotated[
        float,
        typer.Option(parser=real_number, help="Standard deviation of the noise; the function has 1.", metavar="SD"),
    ] = 0.5,
    samples: Annotated[int, typer.Option(parser=whole_number, help="n, training rows.", metavar="N")] = 400,
    d_model: Annotated[
        int, typer.Option(parser=whole_number, help="Total width D, which the inputs have.", metavar="D")
    ] = 48,
    heads: Annotated[int, typer.Option(parser=whole_number, help="H, a divisor of D.", metavar="N")] = 8,
    kernel: Annotated[str, typer.Option(help="gaussian or exponential.")] = "gaussian",
    temperature: Annotated[
        str,
        typer.Option(
            help="A number; best: the one with the least error, for every allocation; literal: bandwidth 1/sqrt(d_k)."
        ),
    ] = "best",
    embedding: Annotated[
        str, typer.Option(help="curved: inputs fill all D directions; linear: only d of them.")
    ] = "curved",
    axes: Annotated[
        str,
        typer.Option(help="What heads are cut from. random: a rotation; aligned: the inputs' principal axes in order."),
    ] = "random",
    theorem: Annotated[
        list[str] | None,
        typer.Option(help="3.1, 4.2, 5.1, 6.1 or 7.1; again for more [all].", metavar="NUMBER"),
    ] = None,
    replicates: Annotated[
        int, typer.Option(parser=whole_number, help="Independent draws behind every standard error.", metavar="N")
    ] = 20,
    queries: Annotated[
        int, typer.Option(parser=whole_number, help="Points at which the error is integrated.", metavar="N")
    ] = 100,
    seed: Annotated[int, typer.Option(parser=whole_number, help="Of all draws.")] = 0,
    confidence: Annotated[
        float, typer.Option(parser=real_number, help="Of the intervals that the verdicts rest on.")
    ] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Check each theorem on a known function: prediction, measurement, and holds / does not hold / cannot tell.

    Example: archopt theory --function additive --intrinsic-dim 2 --heads 4
    """
    from archopt.laboratory import THEOREMS, Setting, run_laboratory
    from archopt.report.files import json_ready
    from archopt.report.laboratory import print_laboratory

    setting = Setting(
        function=function,
        intrinsic_dim=intrinsic_dim,
        noise_sd=noise,
        n_samples=samples,
        d_model=d_model,
        n_heads=heads,
        kernel=kernel,
        temperature=_temperature(temperature),
        embedding=embedding,
        axes=axes,
        n_queries=queries,
        replicates=replicates,
        seed=seed,
    )

    def say(numbers: str) -> None:
        if not quiet:
            print(f"archopt: measuring theorem {numbers} ...", file=sys.stderr, flush=True)

    with said_when_interrupted():
        report = run_laboratory(setting, theorems=theorem or THEOREMS, confidence=confidence, on_start=say).to_dict()
    if as_json:
        typer.echo(json.dumps(json_ready(report)))
    else:
        print_laboratory(report)


def _temperature(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
