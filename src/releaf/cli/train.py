"""`releaf train`: train a learner on a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from releaf.cli import parallel_training
from releaf.cli.console import Json, error_messages, fail, progress_bar
from releaf.cli.log_actions import OnlyActions, chosen_actions
from releaf.cli.policies import check_options, policy_class
from releaf.cli.schema import GUESS_ROWS, Keep, guess_schema, read_schema, show_guess

POLICY = "AdaptiveReleaf"


def train(
    log: Annotated[
        Path, typer.Argument(help="A CSV, Parquet, Arrow or DSJSON file of decisions; or a folder of Parquet.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file of the learner.")],
    action: Annotated[str, typer.Option(help="Column of the action taken.")] = "action",
    reward: Annotated[str, typer.Option(help="Column of its reward.")] = "reward",
    actions: OnlyActions = None,
    schema: Annotated[Path | None, typer.Option(help="Features as TOML (guessed).")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    keep: Keep = None,
    policy: Annotated[str | None, typer.Option(help="The learner (AdaptiveReleaf).")] = None,
    option: Annotated[list[str] | None, typer.Option(help="name=value, a parameter of it; may be repeated.")] = None,
    reward_range: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest reward (0 and 1).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the learner (0).")] = None,
    go_on: Annotated[Path | None, typer.Option(help="A learner to continue training, instead of a new one.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unusable rows, and report them.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Train on a Parquet log in so many processes.")] = None,
    ray: Annotated[str | None, typer.Option(help="Train on a Ray cluster: auto, local, or its address.")] = None,
    probability: Annotated[
        str | None, typer.Option(help="With --workers or --ray: column of propensities, for inverse weights.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a learner on a log of decisions: contexts, actions and rewards.

    By default any policy learns row by row. With --workers or --ray or a folder of Parquet files, an AdaptiveReleaf or
    Releaf learner is fitted in parallel, with the same result on one core and on a cluster.
    """
    import time

    import releaf
    from releaf.compile_clock import compile_clock
    from releaf.streams.batches import estimate_row_count
    from releaf.streams.table_files import row_unit
    from releaf.train import learn_file

    with error_messages():
        if workers is not None or ray is not None or log.is_dir() or "*" in str(log):
            if go_on is not None:
                fail("--go-on continues a learner row by row: expected one file, without --workers and --ray")
            names = {"action": action, "reward": reward, "probability": probability}
            left_out = [name for name in (*names.values(), *(leave_out or [])) if name]
            parallel_training.fit(
                log,
                output,
                policy=parallel_training.fitted_policy(policy or POLICY),
                features=parallel_training.features_of(log, schema, left_out, keep or []),
                actions=parallel_training.actions_of(log, action, actions),
                options=_options(option, seed or 0, reward_range),
                columns=names,
                skip_bad=skip_bad,
                workers=workers,
                ray=ray,
                as_json=as_json,
            )
            return
        if probability is not None:
            fail(
                f"--probability {probability} is not needed: row by row, rewards are not weighted. Leave the column "
                f"out of the features with --leave-out {probability}; or weight rewards, with --workers or --ray"
            )
        if go_on is not None:
            if any(given is not None for given in (policy, schema, option, reward_range, seed)):
                fail("--go-on continues a learner unchanged: no --policy, --schema, --option, --reward-range, --seed")
            learner = releaf.load(go_on)
            only = chosen_actions(actions, learner.actions)
        else:
            options, columns = _options(option, seed or 0, reward_range), (action, reward)
            learner = _new_learner(
                log, policy or POLICY, options, columns, actions, schema, leave_out or [], keep or []
            )
            only = None if actions is None else learner.actions
        started = time.perf_counter()
        with compile_clock() as compiling, progress_bar() as progress:
            task = progress.add_task("compiling, once only", total=estimate_row_count(log))
            going = f"learning from {log.name}"
            report = learn_file(
                learner,
                log,
                action=action,
                reward=reward,
                actions=only,
                skip_bad=skip_bad,
                progress=lambda rows: progress.update(task, completed=rows, description=going),
            )
        unit, seconds = row_unit(log), time.perf_counter() - started
        learning = seconds - compiling.seconds
        speed = f"{report.learnt / max(learning, 1e-9):,.0f} rows a second"
        timing = {"seconds": learning, "compile_seconds": compiling.seconds}
        parallel_training.save_trained(learner, log, output, report, unit, speed, timing, as_json)


def _options(given: list[str] | None, seed: int, reward_range: tuple[float, float] | None) -> dict[str, Any]:
    options: dict[str, Any] = {"seed": seed}
    if reward_range is not None:
        options["reward_range"] = reward_range
    for entry in given or []:
        name, equals, value = entry.partition("=")
        if not equals:
            fail(f"--option {entry}: expected name=value")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def _new_learner(
    log: Path,
    policy: str,
    options: dict[str, Any],
    decided: tuple[str, str],
    only: str | None,
    schema: Path | None,
    leave_out: list[str],
    keep: list[str],
) -> Any:
    """A new learner with the features and actions of the first rows of a log; ``decided``: action and reward."""
    from releaf.streams.batches import missing_column_message
    from releaf.streams.table_files import read_first_rows
    from releaf.streams.tables import normalize_actions, sorted_actions
    from releaf.train.sequential import MAX_ACTIONS

    rows = read_first_rows(log, GUESS_ROWS)
    columns = rows.columns
    action = decided[0]
    for name in (*decided, *leave_out):
        if name not in columns:
            fail(missing_column_message(log, name, columns))
    labels = {label for label in normalize_actions(columns[action]) if label is not None}
    if len(labels) > MAX_ACTIONS:
        fail(f"column {action!r} has {len(labels):,} different values: is it the action that was taken?")
    if schema is not None:
        features = read_schema(schema)
    else:
        features = guess_schema(rows, [*decided, *leave_out], keep)
        show_guess(features)
    for name in decided:
        if name in features.inputs:
            fail(f"{name!r} is a feature of {schema}, and can't be the action or the reward too")
    made = policy_class(policy)
    check_options(made, options)
    return made(chosen_actions(only, labels) or sorted_actions(labels), features, **options)
