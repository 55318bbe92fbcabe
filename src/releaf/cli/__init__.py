"""The command line: `releaf`."""

from __future__ import annotations

from typing import Annotated

import typer

from releaf._version import __version__
from releaf.cli import (
    apprentice,
    compare,
    decide,
    demo,
    doctor,
    evaluate,
    explain,
    export,
    keys,
    reproduce,
    reward,
    sample,
    schema,
    serve,
    store,
    train,
    warmup,
)
from releaf.cli.console import console
from releaf.cli.manual import CommandManual

__all__ = ["app"]

app = typer.Typer(
    help="Contextual bandits that learn which features matter for each action.",
    epilog="\n\n".join(
        [
            "Example: releaf sample && releaf train clicks.csv -o clicks.releaf --skip-bad",
            "Exit code: 0 for success, 1 for an error, 2 for a wrong option or argument, 130 if stopped by Ctrl-C.",
            "Environment: NO_COLOR=1 for no colours, RELEAF_QUIET=1 for no word of compiling.",
        ]
    ),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
START, LOGS, STUDY, SERVICE = "To begin", "From a log to decisions", "Experiments", "Decision service"
ROWS_CODE = "0, or 1 if a row is unusable or it fails"
VISIT = """{"at": "2025-12-06 08:15", "city": "Nice", "device": "phone", "age": 31, "basket": 12.5, \
"earlier_visits": 2, "returning": true}"""
COMMANDS = (
    CommandManual(demo.demo, START, "releaf demo", ("sample", "reproduce")),
    CommandManual(sample.sample, START, "releaf sample", ("schema", "train")),
    CommandManual(warmup.warmup, START, "releaf warmup", ("doctor",)),
    CommandManual(doctor.doctor, START, "releaf doctor", ("warmup",)),
    CommandManual(schema.schema, LOGS, "releaf schema clicks.csv -o schema.toml", ("sample", "train")),
    CommandManual(
        train.train, LOGS, "releaf train clicks.csv -o clicks.releaf --skip-bad", ("sample", "relevance", "decide")
    ),
    CommandManual(explain.relevance, LOGS, "releaf relevance clicks.releaf --png relevance.png", ("train", "explain")),
    CommandManual(
        explain.explain,
        LOGS,
        f"releaf explain clicks.releaf '{VISIT}'",
        ("relevance", "decide"),
    ),
    CommandManual(
        decide.decide,
        LOGS,
        "head -n 4 clicks.csv | releaf decide clicks.releaf --save > decisions.csv",
        ("reward", "explain"),
        ROWS_CODE,
    ),
    CommandManual(
        reward.reward,
        LOGS,
        "printf 'id,reward\\n19996,1\\n19998,0\\n' | releaf reward clicks.releaf",
        ("decide",),
        ROWS_CODE,
    ),
    CommandManual(export.export, LOGS, "releaf export clicks.releaf -o policy.json", ("train", "decide")),
    CommandManual(evaluate.evaluate, LOGS, "releaf evaluate clicks.csv --skip-bad", ("train", "compare")),
    CommandManual(
        apprentice.apprentice,
        LOGS,
        "releaf apprentice clicks.csv --skip-bad -o apprentice.releaf",
        ("evaluate", "train"),
        "0, or 1 if it fails, or the learner can't be promoted",
    ),
    CommandManual(
        compare.compare, STUDY, "releaf compare AdaptiveReleaf LinUCB --steps 2000", ("evaluate", "reproduce")
    ),
    CommandManual(
        reproduce.reproduce,
        STUDY,
        "releaf reproduce lemma1 --quick",
        ("demo", "compare"),
        "0, or 1 if an experiment could not run",
    ),
    CommandManual(
        serve.serve,
        SERVICE,
        "releaf serve --store releaf.db --port 8000",
        ("keys", "store", "warmup"),
        "0 after SIGTERM, 1 for a wrong setting, 3 if it could not start",
    ),
)
for manual in COMMANDS:
    settings = serve.CONTEXT if manual.command is serve.serve else None
    register = app.command(
        help=manual.description, epilog=manual.epilog, rich_help_panel=manual.panel, context_settings=settings
    )
    register(manual.command)
app.add_typer(keys.app, name="keys", rich_help_panel=SERVICE)
app.add_typer(store.app, name="store", rich_help_panel=SERVICE)


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
