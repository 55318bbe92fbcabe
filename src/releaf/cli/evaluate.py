"""`releaf evaluate`: off-policy evaluation of policies on a log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from releaf.cli.console import (
    Json,
    OnRay,
    check_ray_address,
    console,
    error_messages,
    errors,
    fail,
    print_json,
    progress_bar,
    show_problems,
)
from releaf.cli.policies import policy_class
from releaf.cli.schema import GUESS_ROWS, guess_schema, read_schema, show_guess

POLICIES = ("AdaptiveReleaf", "LinUCB", "LinTS", "Releaf", "UCB1")
METHODS = ("ips", "snips", "dr")
MIN_EFFECTIVE_ROWS = 100.0  # effective sample size below which an estimate is unreliable


def evaluate(
    log: Annotated[Path, typer.Argument(help="A CSV, Parquet or Arrow file of decisions with their probabilities.")],
    action: Annotated[str, typer.Option(help="Column of the action taken.")] = "action",
    reward: Annotated[str, typer.Option(help="Column of its reward.")] = "reward",
    probability: Annotated[str, typer.Option(help="Column of its propensity.")] = "probability",
    schema: Annotated[Path | None, typer.Option(help="Features as TOML (guessed).")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help=f"A policy; may be repeated ({', '.join(POLICIES)}).")
    ] = None,
    model: Annotated[list[Path] | None, typer.Option(help="A trained learner to evaluate; may be repeated.")] = None,
    reward_range: Annotated[tuple[float, float], typer.Option(help="Lowest and highest reward.")] = (0.0, 1.0),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the policies.")] = 0,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unusable rows.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of parallel policies (one; on Ray, one per CPU).")
    ] = None,
    ray: OnRay = None,
    as_json: Json = False,
) -> None:
    """Off-policy evaluation: estimate the mean reward of policies from a log of another policy's decisions.

    Each policy is trained on the first half of the log and evaluated on the second half, by inverse propensity scoring
    (IPS), its self-normalised form (SNIPS) and the doubly robust estimator (DR), with 95 % confidence intervals. A
    model from a file is not trained; if it was trained on the same log, its estimate is biased upwards.
    """
    check_ray_address(ray)
    from releaf import load
    from releaf.executors import executor_for
    from releaf.streams.tables import file_format

    with error_messages():
        models = {str(path): load(path) for path in model or []}
        features = _features_of(models, None if schema is None else read_schema(schema))
        known = next((learner.actions for learner in models.values()), None)
        decisions = _read(log, action, reward, probability, features, leave_out or [], known, reward_range, skip_bad)
        policies = {name: _made(name, decisions, seed, reward_range) for name in policy or ([] if model else POLICIES)}
        policies |= models
        tasks = [(name, learner, name not in models) for name, learner in policies.items()]
        with executor_for(workers or (None if ray else 1), ray) as executor, progress_bar() as progress:
            bar, lines = progress.add_task("evaluating", total=len(tasks)), {}
            for index, line in executor.map(partial(_line, decisions), tasks):
                lines[index] = line
                progress.advance(bar)
    if decisions.skipped:
        show_problems(
            str(log), "line" if file_format(log) == "csv" else "row", list(decisions.problems), decisions.skipped
        )
    results = [_logged(decisions), *(lines[index] for index in range(len(tasks)))]
    if as_json:
        print_json(results)
        return
    _show(results)


def _read(
    log: Path,
    action: str,
    reward: str,
    probability: str,
    features: Any,
    leave_out: list[str],
    known: Any,
    reward_range: tuple[float, float],
    skip_bad: bool,
) -> Any:
    from releaf import streams
    from releaf.streams.tables import read_first_rows

    rows, more = read_first_rows(log, GUESS_ROWS)
    if probability not in rows.columns:
        fail(f"{log} has no column {probability!r} of propensities, which off-policy estimates need")
    if features is None:
        features = guess_schema(rows, [action, reward, probability, *leave_out], [], more)
        show_guess(features)
    return streams.log(
        log,
        action=action,
        reward=reward,
        probability=probability,
        actions=known,
        reward_range=reward_range,
        features=features,
        skip_bad=skip_bad,
    )


def _features_of(models: dict[str, Any], given: Any) -> Any:
    """The features of all models, or the given ones."""
    for name, learner in models.items():
        if given is not None and learner.schema != given:
            fail(f"{name} has other features: {', '.join(learner.schema.names)}")
        given = learner.schema
    return given


def _made(name: str, log: Any, seed: int, reward_range: tuple[float, float]) -> Any:
    made = policy_class(name)
    if not made.traits.learns_from_logs:
        fail(f"{name} can't learn from a log")
    further = {"reward_range": reward_range} if made.traits.has_reward_range else {}
    if not further and reward_range != (0.0, 1.0):
        errors.print(f"{name} takes rewards from 0 to 1, so they are scaled for it.")
    return made(log.actions, log.features, seed=seed, **further)


def _logged(log: Any) -> dict[str, Any]:
    """Mean reward of the logged decisions in the second half."""
    from releaf.evaluate.off_policy import mean_estimate

    half = len(log) // 2
    value = mean_estimate(log.rewards[half:], len(log) - half)
    estimate = {"value": value.value, "low": value.low, "high": value.high}
    return {"policy": "the log's own", **dict.fromkeys(METHODS, estimate), "effective_rows": len(log) - half}


def _line(log: Any, task: tuple[str, Any, bool]) -> dict[str, Any]:
    """Estimates of a policy's mean reward, after training on the first half of the log unless it is a model."""
    from releaf import evaluate as estimates
    from releaf.evaluate.off_policy import effective_rows, halves

    name, learner, learns = task
    first, second = halves(log)
    if learns:
        low, high = log.rewards.min(initial=0.0), log.rewards.max(initial=1.0)
        scaled = first.rewards if learner.traits.has_reward_range else (first.rewards - low) / (high - low)
        learner.learn_log(first.contexts, [log.actions[index] for index in first.taken], scaled)
    chosen = estimates.choices(learner, second)
    line: dict[str, Any] = {"policy": name, "effective_rows": effective_rows(second, chosen)}
    for method, estimator in zip(METHODS, (estimates.ips, estimates.snips, estimates.doubly_robust), strict=True):
        value = estimator(second, chosen)
        line[method] = {"value": value.value, "low": value.low, "high": value.high}
    return line


def _show(lines: list[dict[str, Any]]) -> None:
    from releaf.report.terminal import table

    made = table(
        "Mean reward, estimated on the second half of the log",
        "95 % confidence intervals in brackets. Effective rows: the effective sample size.",
    )
    made.add_column("", no_wrap=True)
    for name in ("IPS", "SNIPS", "DR", "effective rows"):
        made.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        cells = [_interval(line[method]) for method in METHODS]
        rows = f"{line['effective_rows']:,.0f}"
        made.add_row(
            line["policy"], *cells, rows if line["effective_rows"] >= MIN_EFFECTIVE_ROWS else f"[yellow]{rows}[/]"
        )
    console.print(made)
    if any(line["effective_rows"] < MIN_EFFECTIVE_ROWS for line in lines):
        console.print("[yellow]Few effective rows:[/] the log rarely took the actions of these policies.")


def _interval(estimate: dict[str, float]) -> str:
    if not estimate["low"] < estimate["high"]:
        return f"{estimate['value']:.4f} [–]"
    return f"{estimate['value']:.4f} [{estimate['low']:.4f}, {estimate['high']:.4f}]"
