"""Options that limit the splits of a width; `search`, `ask` and `recommend` share them."""

import typer

from archopt.cli.numbers import whole_number

HEAD_DIM_MIN = typer.Option(parser=whole_number, help="Narrowest head.", metavar="N")
HEAD_DIM_MAX = typer.Option(parser=whole_number, help="Widest head.", metavar="N")
HEAD_DIM_MULTIPLE_OF = typer.Option(
    parser=whole_number, help="2 for rotary embeddings, 8 for fused kernels.", metavar="N"
)
HEADS_MULTIPLE_OF = typer.Option(
    parser=whole_number, help="Tensor-parallel degree: heads are a multiple of it.", metavar="N"
)
