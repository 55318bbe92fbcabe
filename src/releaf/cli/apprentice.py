"""`releaf apprentice`: let a learner watch the decisions of a log, and tell whether it would have earned more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from releaf.cli.console import Json, console, error_messages, fail, print_json, progress_bar, show_problems
from releaf.cli.policies import policy_class
from releaf.cli.schema import GUESS_ROWS, guess_schema, read_schema, show_guess

POLICY = "AdaptiveReleaf"
STEP = 256  # decisions between two updates of the progress bar


def apprentice(
    log: Annotated[Path, typer.Argument(help="A CSV, Parquet or Arrow file of decisions, the oldest first.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Save the apprentice, to watch more logs later.")
    ] = None,
    promote: Annotated[
        Path | None, typer.Option(help="Save the learner for deciding, if it is shown to earn more; else exit code 1.")
    ] = None,
    action: Annotated[str, typer.Option(help="Column of the action that the application took.")] = "action",
    reward: Annotated[str, typer.Option(help="Column of its reward.")] = "reward",
    probability: Annotated[
        str | None, typer.Option(help="Column of its propensity ('probability', if there is one).")
    ] = None,
    eligible: Annotated[
        str | None,
        typer.Option(help="Column of the actions that could be taken: names separated by |, or lists; empty: all."),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(help="Column of the costs of actions, for learners that weigh costs: name=cost separated by |."),
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Features as TOML (guessed).")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    policy: Annotated[str | None, typer.Option(help=f"The learner ({POLICY}).")] = None,
    reward_range: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest reward (0 and 1).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the learner (0).")] = None,
    warm_up: Annotated[int | None, typer.Option(min=0, help="First decisions that only teach the learner (0).")] = None,
    go_on: Annotated[
        Path | None, typer.Option(help="An apprentice saved with -o that goes on, instead of a new one.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unusable rows.")] = False,
    as_json: Json = False,
) -> None:
    """Learn from the decisions of an application, row by row, and tell what the learner would have earned instead.

    Before it learns a reward, the learner chooses for the same context. The bounds of the difference hold at all times
    at once, so a log may be continued with --go-on until the lower one is above 0, and the learner promoted.
    """
    from releaf.streams.table_files import file_format

    given = {"--schema": schema, "--policy": policy, "--reward-range": reward_range, "--seed": seed}
    with error_messages():
        if go_on is not None:
            extra = [name for name, value in (given | {"--warm-up": warm_up}).items() if value is not None]
            if extra:
                fail(f"--go-on continues an apprentice unchanged: expected no {extra[0]}")
        watching = None if go_on is None else _load(go_on)
        further = {"eligible": eligible, "cost": cost}
        columns = _columns(log, action, reward, probability, further, leave_out or [])
        features = _features(log, columns, leave_out or [], schema, watching)
        decisions = _read(log, columns, features, watching, reward_range or (0.0, 1.0), skip_bad)
        if watching is None:
            watching = _new(policy or POLICY, decisions, seed or 0, reward_range or (0.0, 1.0), warm_up or 0)
        _watch(watching, decisions, log)
        report = watching.report()
        if output is not None:
            watching.save(output)
    if decisions.skipped:
        unit = "line" if file_format(log) == "csv" else "row"
        show_problems(str(log), unit, list(decisions.problems), decisions.skipped)
    if as_json:
        print_json(report.to_dict())
    else:
        console.print(report.text, highlight=False, markup=False, soft_wrap=True)
    if promote is not None:
        with error_messages():
            watching.promote().save(promote)


def _load(path: Path) -> Any:
    import releaf

    found = releaf.load(path)
    if not isinstance(found, releaf.Apprentice):
        fail(f"{path} is a {type(found).__name__}: expected an apprentice, as `releaf apprentice -o` saves it")
    return found


def _columns(
    log: Path,
    action: str,
    reward: str,
    probability: str | None,
    further: dict[str, str | None],
    leave_out: list[str],
) -> dict[str, str | None]:
    """The columns of decisions, checked; propensities are optional."""
    from releaf.streams.batches import missing_column_message
    from releaf.streams.table_files import read_first_rows

    names = read_first_rows(log, GUESS_ROWS)[0].columns
    if probability is None and "probability" in names:
        probability = "probability"
    for name in (action, reward, probability, *further.values(), *leave_out):
        if name is not None and name not in names:
            fail(missing_column_message(log, name, names))
    return {"action": action, "reward": reward, "probability": probability, **further}


def _features(
    log: Path, columns: dict[str, str | None], leave_out: list[str], schema: Path | None, watching: Any
) -> Any:
    from releaf.streams.table_files import read_first_rows

    if watching is not None:
        return watching.policy.schema
    if schema is not None:
        return read_schema(schema)
    rows, more = read_first_rows(log, GUESS_ROWS)
    used = [name for name in columns.values() if name is not None]
    features = guess_schema(rows, [*used, *leave_out], [], log if more else None)
    show_guess(features, can_keep=False)
    return features


def _read(
    log: Path,
    columns: dict[str, Any],
    features: Any,
    watching: Any,
    reward_range: tuple[float, float],
    skip_bad: bool,
) -> Any:
    from releaf import streams

    known = None if watching is None else watching.policy.actions
    limits = reward_range if watching is None else watching.policy.reward_range
    return streams.log(log, **columns, actions=known, reward_range=limits, features=features, skip_bad=skip_bad)


def _new(name: str, log: Any, seed: int, reward_range: tuple[float, float], warm_up: int) -> Any:
    from releaf import Apprentice

    made = policy_class(name)
    if reward_range != (0.0, 1.0) and not made.traits.has_reward_range:
        fail(f"{name} takes rewards from 0 to 1: expected no --reward-range")
    further = {"reward_range": reward_range} if made.traits.has_reward_range else {}
    return Apprentice(made(log.actions, log.features, seed=seed, **further), warm_up=warm_up)


def _watch(watching: Any, log: Any, path: Path) -> None:
    """Let the apprentice observe all decisions, in their order."""
    all_costs = None if watching.policy.cost_weight is None else log.costs
    with progress_bar() as progress:
        bar = progress.add_task(f"watching {path.name}", total=len(log))
        for row in range(len(log)):
            taken = log.actions[log.taken[row]]
            chance = None if log.probabilities is None else float(log.probabilities[row])
            allowed = None
            if log.eligible is not None:
                allowed = [name for name, can in zip(log.actions, log.eligible[row], strict=True) if can]
            costs = None if all_costs is None else all_costs[row]
            watching.observe(
                log.contexts[row], taken, float(log.rewards[row]), probability=chance, eligible=allowed, cost=costs
            )
            if row % STEP == STEP - 1 or row + 1 == len(log):
                progress.update(bar, completed=row + 1)
