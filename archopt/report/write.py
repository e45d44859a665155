"""A report's files: the page, and its figures as pictures beside it."""

from pathlib import Path

from archopt.report.files import write_html
from archopt.report.html import render
from archopt.report.page import Page
from archopt.report.png import write_pngs

REPORT = "report.html"


def write_page(folder: Path, page: Page, *, pictures: bool = True) -> list[Path]:
    """Write report.html, and figures/KEY.png for each figure.

    Args:
        folder: must exist.
        pictures: whether to write the PNG files.

    Returns:
        The files, the page first.

    Raises:
        StorageError: the file system refuses; the files that existed are left as they were.
    """
    write_html(folder / REPORT, render(page))
    return [folder / REPORT, *(write_pngs(folder, page.figures) if pictures else [])]
