"""What the terminal prints of the theory's laboratory: per theorem the prediction, what came out, the verdict."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from archopt.report.numbers import encoded

_STYLES = {"holds": "green", "does not hold": "red", "cannot tell": "yellow"}


def laboratory_summary(report: Mapping[str, Any], *, encoding: str = "utf-8") -> Group:
    """One block a claim.

    Args:
        report: as ``archopt theory --json`` prints it.
        encoding: of the output; characters that it lacks are written as escapes.
    """
    parts: list[RenderableType] = [
        Text(encoded(_setting_sentence(report["setting"]), encoding), style="bold"),
        Text(""),
    ]
    for finding in report["findings"]:
        parts += [_heading(finding, encoding), _lines(finding, encoding), Text("")]
    share = f"{100 * report['confidence']:.6g} %"
    parts.append(
        Text(
            encoded(
                f"A claim holds, or does not, where the whole {share} interval lies inside, or outside, what it "
                f"allows. ±: standard error; changes in percent are geometric means of paired ratios. This is one "
                f"setting: it can refute a general claim, never prove one.",
                encoding,
            ),
            style="dim",
        )
    )
    return Group(*parts)


def print_laboratory(report: Mapping[str, Any], console: Console | None = None) -> None:
    """Print :func:`laboratory_summary`, on standard output unless another console is given."""
    console = console or Console(highlight=False)
    console.print(laboratory_summary(report, encoding=console.encoding))


def _setting_sentence(setting: Mapping[str, Any]) -> str:
    n_heads, d_model = setting["n_heads"], setting["d_model"]
    temperature = setting["temperature"]
    rules = {"best": "the best temperature", "literal": "bandwidth 1/sqrt(d_k)"}
    tuned = rules[temperature] if isinstance(temperature, str) else f"temperature {temperature:g}"
    return (
        f"{setting['function']}, d = {setting['intrinsic_dim']}, noise sd {setting['noise_sd']:g}, n = "
        f"{setting['n_samples']:,}; {n_heads} x {d_model // n_heads} (D = {d_model}), {setting['kernel']} kernel at "
        f"{tuned}, {setting['embedding']} inputs, {setting['axes']} axes; {setting['replicates']} replicates"
    )


def _heading(finding: Mapping[str, Any], encoding: str) -> Text:
    title = f"{finding['theorem']} ({finding['origin'].lower()}): {finding['claim']}: "
    heading = Text(encoded(title, encoding) + " ")
    heading.append(finding["verdict"], style=f"bold {_STYLES[finding['verdict']]}")
    return heading


def _lines(finding: Mapping[str, Any], encoding: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    for _ in range(2):
        grid.add_column(overflow="fold")  # rich's ellipsis is not in every encoding
    for name in ("predicted", "measured", "note"):
        if finding[name]:
            grid.add_row(Text(f"  {name}", style="dim"), Text(encoded(finding[name], encoding)))
    return grid
