"""`archopt doctor`: what this machine has, and what of it is broken."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.numbers import Sizes, sizes

if TYPE_CHECKING:
    from archopt.doctor import Examination

NAME_WIDTH = 19  # columns of the terminal, for what a finding is about


def doctor_command(
    storage: Annotated[
        str | None,
        typer.Option(help="Optuna storage URL to reach [the default folder is tried].", metavar="URL"),
    ] = None,
    head_dims: Annotated[
        Sizes | None,
        typer.Option(
            parser=sizes, help="Widths of heads whose attention kernels are timed [4,8,...,128].", metavar="D,..."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> int:
    """Look at this machine: packages, device, attention kernels, memory, storage. Exit code 1 if something is broken.

    Example: archopt doctor --head-dims 8,64 --storage postgresql+psycopg://me@host/archopt
    """
    from archopt.doctor import examine
    from archopt.doctor.kernels import HEAD_DIMS

    with said_when_interrupted():
        found = examine(storage, HEAD_DIMS if head_dims is None else head_dims.numbers)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        typer.echo("\n".join(_lines(found)))
    return 1 if found.faults else 0


def _lines(found: "Examination") -> list[str]:
    lines = [f"{finding.name:{NAME_WIDTH}} {finding.found}" for finding in found.findings]
    if found.kernels:
        lines += ["", "heads  head_dim  table, ms          text, ms          (attention of a training step)"]
        for row in found.kernels:
            table, text = f"{row.table} {1e3 * row.table_seconds:.2f}", f"{row.text} {1e3 * row.text_seconds:.2f}"
            lines.append(f"{row.n_heads:5}  {row.head_dim:8}  {table:17}  {text}")
    lines.append("")
    return lines + ([f"broken: {fault}" for fault in found.faults] or ["Nothing is broken."])
