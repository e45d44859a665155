"""A report before any markup: what stands at its top, and its sections."""

from collections.abc import Sequence
from dataclasses import dataclass

from archopt.report.figure import Figure
from archopt.report.tables import Table


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in this order; never without content.

    Args:
        key: unique, safe in an HTML id.
        heading: a few words.
        paragraphs: sentences.
        command: to be copied, after the paragraphs.
        figures, tables: shown after the paragraphs.
        points: a list after all of them.
        links: words and where they lead within the report's folder, after that.
    """

    key: str
    heading: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    points: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    command: str | None = None


@dataclass(frozen=True)
class Page:
    """One report.

    Args:
        name: of what it is about.
        headline: the answer.
        certainty: sentences on how sure that is.
        numbers: a few numbers with their names.
        sections: in reading order.
    """

    name: str
    headline: str
    certainty: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Of all sections, in reading order."""
        return tuple(figure for section in self.sections for figure in section.figures)


def section(
    key: str,
    heading: str,
    paragraphs: Sequence[str] = (),
    *,
    figures: Sequence[Figure | None] = (),
    tables: Sequence[Table | None] = (),
    points: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
    command: str | None = None,
    without: str | None = None,
) -> Section | None:
    """A section of what there is.

    Args:
        without: the one line that stands in it where there is nothing; None leaves the section out then.

    Returns:
        None where there is nothing to show and nothing to say of that.
    """
    held = tuple(figure for figure in figures if figure is not None)
    kept = tuple(table for table in tables if table is not None)
    told = tuple(sentence for sentence in paragraphs if sentence)
    if not (told or held or kept or points or links or command):
        return None if without is None else Section(key, heading, (without,))
    return Section(key, heading, told, held, kept, tuple(points), tuple(links), command)
