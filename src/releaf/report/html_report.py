"""Self-contained HTML reports: tables, charts, and the script that draws them, in one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from releaf._version import __version__
from releaf.report.figures import Figures, Picture
from releaf.report.number_format import format_difference, format_mean
from releaf.report.picture_charts import chart
from releaf.statistics import t_half_width

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.7rem; margin: 1rem 0 .25rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; }
p.about, figcaption { color: #57606a; font-size: .9rem; }
nav a { margin-right: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #d8dee4; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: white; }
@media (max-width: 40rem) { td:first-child { white-space: normal; min-width: 6rem; } }
td small { color: #57606a; display: block; }
figure { margin: 1rem 0; }
.chart { width: 100%; min-height: 60px; }
"""


class Section(NamedTuple):
    """One experiment of a report."""

    name: str
    title: str
    figures: list[Figures]
    pictures: list[Picture]


def write(path: Path, title: str, about: str, sections: Sequence[Section]) -> None:
    specs: list[Any] = []
    body = "\n".join(_section(section, specs) for section in sections)
    links = " ".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections)
    data = _escape_script(json.dumps(specs, ensure_ascii=False))
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>{STYLE}</style></head><body>
<h1>{escape(title)}</h1><p class="about">{escape(about)} releaf {__version__}, {date}.</p><nav>{links}</nav>
{body}
<script>{_vega_bundle()}</script>
<script>
const specs = {data};
specs.forEach((spec, place) => vegaEmbed("#chart-" + place, spec, {{actions: false, renderer: "svg"}}));
</script></body></html>
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def save_pictures(folder: Path, sections: Sequence[Section], scale_factor: float = 2.0) -> list[Path]:
    """Save each picture as a PNG file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for section in sections:
        for index, picture in enumerate(section.pictures):
            path = folder / f"{section.name}-{index + 1}.png"
            chart(picture, width=720).properties(title=picture.title).save(path, scale_factor=scale_factor)
            written.append(path)
    return written


def save_figures(path: Path, sections: Sequence[Section]) -> None:
    """Save all tables as JSON: mean, half-width of the 95 % interval, number of runs, and the paper's value."""
    tables = [_figures_to_dict(figures) for section in sections for figures in section.figures]
    date = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"version": __version__, "date": date, "tables": tables}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def save_picture_data(path: Path, sections: Sequence[Section]) -> None:
    """Save the data of all pictures as JSON, with four digits, by the file names of :func:`save_pictures`."""
    pictures = {
        f"{section.name}-{index + 1}": {**picture._asdict(), "rows": [_rounded(row) for row in picture.rows]}
        for section in sections
        for index, picture in enumerate(section.pictures)
    }
    path.write_text(json.dumps(pictures, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in row.items()}


def _figures_to_dict(figures: Figures) -> dict[str, Any]:
    lines = []
    for line in figures.lines:
        cells = [
            {"mean": float(np.mean(values)), "margin": t_half_width(values), "runs": len(values), "paper": paper}
            if values
            else None
            for values, paper in zip(line.ours, line.paper, strict=True)
        ]
        lines.append({"label": line.label, "cells": cells})
    columns = [{"name": column.name, "digits": column.digits} for column in figures.columns]
    return {"title": figures.title, "caption": figures.caption, "columns": columns, "lines": lines}


def _escape_script(script: str) -> str:
    """Escape text that would end a script element."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _vega_bundle() -> str:
    """Vega-Embed and its dependencies as one script, for offline use."""
    import vl_convert

    return _escape_script(vl_convert.javascript_bundle(None))  # type: ignore[arg-type]  # the whole bundle


def _section(section: Section, specs: list[Any]) -> str:
    parts = [f'<h2 id="{section.name}">{escape(section.title)}</h2>']
    parts += [_table(figures) for figures in section.figures]
    for picture in section.pictures:
        specs.append(chart(picture).to_dict())
        note = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
        holder = f'<div class="chart" id="chart-{len(specs) - 1}"></div>'
        parts.append(f"<figure><h3>{escape(picture.title)}</h3>{holder}{note}</figure>")
    return "\n".join(parts)


def _table(figures: Figures) -> str:
    head = "".join(f"<th>{escape(column.name)}</th>" for column in figures.columns)
    rows = []
    for line in figures.lines:
        cells = [
            _cell(values, paper, column.digits, figures.reference)
            for values, paper, column in zip(line.ours, line.paper, figures.columns, strict=True)
        ]
        rows.append(f"<tr><td>{escape(line.label)}</td>{''.join(cells)}</tr>")
    caption = f'<p class="about">{escape(figures.caption)}</p>' if figures.caption else ""
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<h3>{escape(figures.title)}</h3><div class="wide">{table}</div>{caption}'


def _cell(values: Sequence[float], paper: float | None, digits: int, reference: str) -> str:
    ours = escape(format_mean(values, digits))
    if paper is None:
        return f"<td>{ours}</td>"
    stated = f"{reference.removeprefix('the ')} {paper:,.{digits}f}"
    return f"<td>{ours}<small>{stated}, {format_difference(values, paper, digits)}</small></td>"
