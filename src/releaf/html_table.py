"""`html_table`: a small table for notebooks, whose cells are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(
    head: Sequence[Any], rows: Iterable[Sequence[Any]], *, title: str | None = None, notes: Iterable[str] = ()
) -> str:
    """Return a table as HTML, with the first cell of each row as its header.

    It has no colours of its own, so it follows the notebook's light or dark theme.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Cells of each row, as many as columns. Text and numbers are escaped.
    title
        Line above the table.
    notes
        Lines below the table.

    Examples
    --------
    >>> html_table(["action"], [["<b>"]])
    '<table><thead><tr><th>action</th></tr></thead><tbody><tr><th>&lt;b&gt;</th></tr></tbody></table>'
    """
    body = "".join(f"<tr>{_cell('th', row[0])}{''.join(_cell('td', cell) for cell in row[1:])}</tr>" for row in rows)
    above = "" if title is None else f"<p>{escape(title)}</p>"
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    names = "".join(_cell("th", name) for name in head)
    return f"{above}<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{below}"


def _cell(kind: str, value: Any) -> str:
    return f"<{kind}>{escape(str(value))}</{kind}>"
