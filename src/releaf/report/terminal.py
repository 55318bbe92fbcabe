"""Tables for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from releaf.report.figures import Figures
from releaf.report.number_format import format_difference, format_mean


def table(title: str, caption: str) -> Table:
    style = {
        "title_justify": "left",
        "caption_justify": "left",
        "title_style": "bold",
        "box": box.SIMPLE_HEAD,
        "padding": (0, 1, 0, 0),
    }
    return Table(title=title, caption=caption, **style)  # type: ignore[arg-type]


def figures_table(figures: Figures, differences: bool = True) -> Table:
    """Measured values, with reference values below, and their differences if wanted."""
    made = table(figures.title, figures.caption)
    made.add_column("", no_wrap=True)
    for column in figures.columns:
        made.add_column(column.name, justify="right", no_wrap=True)
    for line in figures.lines:
        has_reference = any(value is not None for value in line.paper)
        ours = [format_mean(values, column.digits) for values, column in zip(line.ours, figures.columns, strict=True)]
        made.add_row(line.label, *ours, end_section=not has_reference)
        if has_reference:
            cells = [
                _format_reference(values, paper, column.digits, differences)
                for paper, values, column in zip(line.paper, line.ours, figures.columns, strict=True)
            ]
            made.add_row(f"  {figures.reference}", *cells, style="dim", end_section=True)
    return made


def _format_reference(values: list[float], paper: float | None, digits: int, differences: bool) -> str:
    if paper is None:
        return ""
    gap = f" ({format_difference(values, paper, digits)})" if differences and values else ""
    return f"{paper:,.{digits}f}{gap}"
