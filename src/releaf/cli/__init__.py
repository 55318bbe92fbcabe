"""The command line: `releaf`."""

from __future__ import annotations

from typing import Annotated

import typer

from releaf._version import __version__
from releaf.cli import (
    compare,
    decide,
    demo,
    doctor,
    evaluate,
    explain,
    keys,
    reproduce,
    reward,
    schema,
    serve,
    store,
    train,
    warmup,
)
from releaf.cli.console import console

__all__ = ["app"]

app = typer.Typer(
    help="Contextual bandits that learn which features matter for each action.",
    epilog="Example: releaf demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
COMMANDS = (
    (demo.demo, "releaf demo --seeds 20"),
    (schema.schema, "releaf schema clicks.parquet --leave-out shown --leave-out clicked --leave-out p -o schema.toml"),
    (train.train, "releaf train clicks.parquet -o clicks.releaf --action shown --reward clicked --schema schema.toml"),
    (decide.decide, "releaf decide clicks.releaf < visitors.csv > decisions.csv"),
    (reward.reward, "releaf reward clicks.releaf < rewards.csv"),
    (explain.relevance, "releaf relevance clicks.releaf --png relevance.png"),
    (explain.explain, 'releaf explain clicks.releaf \'{"age": 31, "plan": "a"}\''),
    (evaluate.evaluate, "releaf evaluate clicks.parquet --action shown --reward clicked --probability p"),
    (compare.compare, "releaf compare AdaptiveReleaf LinUCB --stream breast_cancer --table cases.csv:diagnosis"),
    (reproduce.reproduce, "releaf reproduce intrusion relevance --seeds 20 --report report/index.html"),
    (serve.serve, "releaf serve --store releaf.db --port 8000"),
    (warmup.warmup, "releaf warmup"),
    (doctor.doctor, "releaf doctor"),
)
for command, example in COMMANDS:
    settings = serve.CONTEXT if command is serve.serve else None
    app.command(epilog=f"Example: {example}", context_settings=settings)(command)
app.add_typer(keys.app, name="keys")
app.add_typer(store.app, name="store")


def _version(show: bool) -> None:
    if show:
        console.print(f"releaf {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Contextual bandits that learn which features matter for each action."""
