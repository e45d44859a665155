"""Laws of the best head_dim over n and D."""

from archopt.laws.next_cell import GridCellState, next_cell

__all__ = ["GridCellState", "next_cell"]
