"""All figures of a search, in the order of the report; those without data are absent."""

from collections.abc import Sequence
from dataclasses import dataclass

from archopt.report.allocation_figures import loss_against_head_dim, loss_against_time, weighting_compared
from archopt.report.figure import Figure
from archopt.report.training_figures import diversity_points, learning_curves, loss_against_diversity
from archopt.report.wording import Recommendation, TrialRow


@dataclass(frozen=True)
class Figures:
    """The figures that the data allow; None, or an empty tuple, where they do not.

    Every entry's ``data`` and ``layout`` are what ``plotly.graph_objects.Figure`` takes.
    """

    head_dim: Figure | None
    time: Figure | None
    weighting: Figure | None
    diversity: tuple[Figure, ...]
    curves: Figure | None

    def in_order(self) -> tuple[Figure, ...]:
        """Those that exist, as the report shows them."""
        several = (self.head_dim, self.time, self.weighting, *self.diversity, self.curves)
        return tuple(figure for figure in several if figure is not None)


def draw(recommendation: Recommendation, rows: Sequence[TrialRow]) -> Figures:
    """Draw what a search found.

    Args:
        recommendation: as in recommendation.json.
        rows: one a trial.
    """
    return Figures(
        head_dim=loss_against_head_dim(recommendation, rows),
        time=loss_against_time(recommendation),
        weighting=weighting_compared(recommendation, rows),
        diversity=tuple(loss_against_diversity(recommendation, diversity_points(recommendation, rows))),
        curves=learning_curves(recommendation, rows),
    )
