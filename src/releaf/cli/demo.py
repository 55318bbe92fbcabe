"""`releaf demo`: the breast-cancer data, a running service, or a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from releaf.cli.console import Json, fail


def demo(
    service: Annotated[
        bool, typer.Option("--service", help="Start the service with a simulated stream, and open its dashboard.")
    ] = False,
    notebook: Annotated[bool, typer.Option("--notebook", help="Write a notebook that runs top to bottom.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of shuffles to average over.")] = 10,
    steps: Annotated[int, typer.Option(min=1000, help="Number of decisions per run.")] = 50_000,
    budget: Annotated[int, typer.Option(min=10, help="Label budget of AdaptiveReleaf.")] = 1_000,
    browser: Annotated[bool, typer.Option(help="With --service: open the dashboard in a browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="With --service: port; 0 for a free one.")] = 8000,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="With --service: stop after so many minutes, not at Ctrl-C.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="With --notebook: output file.")] = Path(
        "releaf-demo.ipynb"
    ),
    force: Annotated[bool, typer.Option("--force", help="With --notebook: replace the file if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the learners do: on breast-cancer data, as a service with a dashboard, or in a notebook.

    By default it diagnoses breast cancer: errors and labels of RELEAF next to the paper's figures, and of
    AdaptiveReleaf with few labels; the relevance of each feature to each action; and one decision explained.

    With `--service`, a service in a temporary folder decides for visitors of a simulated page, whose clicks arrive with
    a delay and whose tastes change after a minute or two; a shadow learns from the same clicks.
    """
    if service and notebook:
        fail("--service and --notebook are two demonstrations: expected one of them")
    if notebook:
        from releaf.cli.demo_notebook import write_notebook

        write_notebook(output, force, as_json)
    elif service:
        from releaf.cli.demo_service import run_service

        run_service(port, browser, minutes)
    else:
        from releaf.cli.demo_figures import show_figures

        show_figures(seeds, steps, budget, as_json)
