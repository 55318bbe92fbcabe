"""`releaf export`: a frozen policy, for browsers, edges and phones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from releaf.cli.console import Json, Model, console, error_messages, print_json


def export(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSON file to write.")],
    javascript: Annotated[
        Path | None, typer.Option(help="Also copy the evaluator in JavaScript, an npm package, to this new folder.")
    ] = None,
    python: Annotated[
        Path | None, typer.Option(help="Also copy the evaluator in Python, which needs nothing else, to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Export a learner as it is now, as a JSON file by which browsers, edges and phones decide.

    The file learns nothing; it keeps the exploration of the learner at this moment. The model is unchanged.
    """
    import releaf
    from releaf.frozen import JAVASCRIPT, evaluator

    with error_messages():
        releaf.load(model).export(output)
        if javascript is not None:
            shutil.copytree(JAVASCRIPT, javascript)
        if python is not None:
            shutil.copyfile(evaluator.__file__, python)
    size = output.stat().st_size
    if as_json:
        places = {"javascript": javascript, "python": python}
        made = {name: str(path) for name, path in places.items() if path is not None}
        print_json({"file": str(output), "bytes": size, **made})
        return
    console.print(f"The frozen policy is in {output} ({size:,} bytes).", highlight=False)
    for path in (javascript, python):
        if path is not None:
            console.print(f"The evaluator is in {path}.", highlight=False)
