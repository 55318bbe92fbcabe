"""`releaf evaluate`: off-policy evaluation of policies on a log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.markup import escape

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
from releaf.cli.log_actions import OnlyActions, chosen_actions, warn_of_rare_actions
from releaf.cli.policies import policy_class
from releaf.cli.schema import GUESS_ROWS, guess_schema, read_schema, show_guess

POLICIES = ("AdaptiveReleaf", "LinUCB", "LinTS", "Releaf", "UCB1")
METHODS = ("ips", "snips", "dm", "dr", "sndr", "switch-dr")
SHOWN = ("snips", "dr", "switch-dr")  # in the table, by default
OWN = "the log's own"
DEFAULT_PROBABILITY = "probability"


class Shared(NamedTuple):
    """What the estimates of all policies share: both halves of the log, and the models of the second."""

    first: Any
    second: Any
    rewards: Any  # predicted reward of each action in each row of the second half
    propensities: Any  # estimated ones, if the log has none
    reward_range: tuple[float, float]
    greedy: bool


def evaluate(
    log: Annotated[Path, typer.Argument(help="A CSV, Parquet, Arrow or DSJSON file of decisions.")],
    action: Annotated[str, typer.Option(help="Column of the action taken.")] = "action",
    reward: Annotated[str, typer.Option(help="Column of its reward.")] = "reward",
    probability: Annotated[
        str | None,
        typer.Option(help="Column of its propensity (probability, or the one column that looks like propensities)."),
    ] = None,
    actions: OnlyActions = None,
    eligible: Annotated[
        str | None,
        typer.Option(help="Column of the actions that could be taken: names separated by |, or lists; empty: all."),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(help="Column of the costs of actions, for learners that weigh costs: name=cost separated by |."),
    ] = None,
    estimate_propensities: Annotated[
        bool,
        typer.Option(
            "--estimate-propensities",
            help="Estimate propensities from the features, where the log has none. Assumes no unobserved confounders.",
        ),
    ] = False,
    schema: Annotated[Path | None, typer.Option(help="Features as TOML (guessed).")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help=f"A policy; may be repeated ({', '.join(POLICIES)}).")
    ] = None,
    model: Annotated[list[Path] | None, typer.Option(help="A trained learner to evaluate; may be repeated.")] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(help=f"An estimator to show; may be repeated ({', '.join(METHODS)}). JSON has all."),
    ] = None,
    reward_range: Annotated[tuple[float, float], typer.Option(help="Lowest and highest reward.")] = (0.0, 1.0),
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Judge the actions with the highest estimates, without exploration.")
    ] = False,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Shuffle the rows first: for a log that is sorted, but not by time.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the policies, and of --shuffle.")] = 0,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unusable rows.")] = False,
    png: Annotated[Path | None, typer.Option(help="Draw the weights of all policies into this file.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of parallel policies (one; on Ray, one per CPU).")
    ] = None,
    ray: OnRay = None,
    as_json: Json = False,
) -> None:
    """Estimate the mean reward of policies from a log of another policy's decisions (off-policy evaluation).

    Each policy is trained on the first half of the log and evaluated on the second half, with 95 % confidence
    intervals: by inverse propensity (ips, self-normalised: snips), by a model of rewards (dm), or by both (dr, sndr,
    switch-dr). A model from a file is not trained; if it was trained on the same log, its estimate is biased upwards.
    """
    check_ray_address(ray)
    from releaf import load
    from releaf.executors import executor_for
    from releaf.streams.table_files import row_unit

    shown = _checked_estimators(estimator)
    with error_messages():
        models = {str(path): load(path) for path in model or []}
        features = _features_of(models, None if schema is None else read_schema(schema))
        known = next((learner.actions for learner in models.values()), None)
        if actions is not None and known is not None:
            fail("--actions is for new policies: a --model has actions of its own")
        only, unused = known or actions, leave_out or []
        columns = {"action": action, "reward": reward, "probability": probability, "eligible": eligible, "cost": cost}
        decisions = _read(log, columns, estimate_propensities, features, unused, only, reward_range, skip_bad)
        policies = {name: _made(name, decisions, seed, reward_range) for name in policy or ([] if model else POLICIES)}
        policies |= models
        tasks = [(name, learner, name not in models) for name, learner in policies.items()]
        with executor_for(workers or (None if ray else 1), ray) as executor, progress_bar() as progress:
            bar, found = progress.add_task("evaluating", total=len(tasks) + 1), {}
            shared = _share(decisions, estimate_propensities, reward_range, greedy, seed if shuffle else None)
            progress.advance(bar)
            for index, result in executor.map(partial(_line, shared), tasks):
                found[index] = result
                progress.advance(bar)
    if decisions.skipped:
        show_problems(str(log), row_unit(log), list(decisions.problems), decisions.skipped)
    ordered = [found[index] for index in range(len(tasks))]
    results = [_logged(shared.second), *(line for line, _ in ordered)]
    if png is not None:
        _draw(png, shared.second, {line["policy"]: chosen for line, chosen in ordered})
    if as_json:
        print_json(results)
        return
    _show(results, shown, shared.propensities)
    judged = "by their highest estimates, without exploration" if greedy else "as they decide, exploration included"
    console.print(f"Policies are judged {judged}.", highlight=False)
    if models:
        errors.print("A model's value is too high here if it has learnt rows of this log: evaluate it on other rows.")
    if png is not None:
        console.print(f"The chart is in {png}.", highlight=False)


def _checked_estimators(given: list[str] | None) -> tuple[str, ...]:
    unknown = [name for name in given or [] if name not in METHODS]
    if unknown:
        fail(f"there is no estimator {unknown[0]!r}: expected {', '.join(METHODS)}")
    return tuple(given or SHOWN)


def _read(
    log: Path,
    columns: dict[str, Any],
    estimates_propensities: bool,
    features: Any,
    leave_out: list[str],
    known: Any,
    reward_range: tuple[float, float],
    skip_bad: bool,
) -> Any:
    import numpy as np

    from releaf import streams
    from releaf.streams.table_files import read_first_rows
    from releaf.streams.tables import normalize_action

    rows = read_first_rows(log, GUESS_ROWS)
    eligible, cost = columns["eligible"], columns["cost"]
    for name, what in ((eligible, "eligible actions"), (cost, "costs")):
        if name is not None and name not in rows.columns:
            fail(f"{log} has no column {name!r} of {what}; it has {', '.join(rows.columns)}")
    decided = [name for name in (columns["action"], columns["reward"], eligible, cost) if name is not None]
    probability = columns["probability"] or DEFAULT_PROBABILITY
    if not estimates_propensities:
        unused = {name: values for name, values in rows.columns.items() if name not in (*decided, *_inputs(features))}
        probability = _propensity_column(log, columns["probability"], unused)
    columns = {**columns, "probability": None if estimates_propensities else probability}
    if features is None:
        propensities = [probability] if probability in rows.columns else []  # no feature, even if estimated anew
        features = guess_schema(rows, [*decided, *propensities, *leave_out], [])
        show_guess(features, can_keep=False)
    if isinstance(known, str):  # of --actions
        known = chosen_actions(known, {normalize_action(value) for value in rows.columns[columns["action"]]})
    read = streams.log(
        log,
        **columns,
        actions=known,
        reward_range=reward_range,
        features=features,
        skip_bad=skip_bad,
    )
    counts = np.bincount(read.taken, minlength=len(read.actions)).tolist()
    warn_of_rare_actions({label: rows for label, rows in zip(read.actions, counts, strict=True) if rows}, read.actions)
    return read


def _inputs(features: Any) -> tuple[str, ...]:
    return () if features is None else tuple(features.inputs)


def _propensity_column(log: Path, given: str | None, columns: dict[str, Any]) -> str:
    """The column of propensities: as given, or by the default name, or the only one that looks like propensities."""
    from releaf.column_guess import propensity_columns

    name = given or DEFAULT_PROBABILITY
    if name in columns:
        return name
    candidates = propensity_columns(columns) if given is None else []
    if len(candidates) == 1:
        errors.print(f"Propensities: column {candidates[0]!r}, by its name and its values.", highlight=False)
        return candidates[0]
    hint = f" (such as {' or '.join(map(repr, candidates))})" if candidates else ""
    raise ValueError(
        f"{log} has no column {name!r} of propensities, which off-policy estimates need: "
        f"name it with --probability{hint}, or estimate them with --estimate-propensities"
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


def _share(
    log: Any, estimates_propensities: bool, reward_range: tuple[float, float], greedy: bool, seed: int | None
) -> Shared:
    """Split the log, and fit the models that all policies share to its second half."""
    from releaf.evaluate import cross_fit_rewards, estimate_propensities, halves
    from releaf.evaluate.off_policy import differing_shares

    first, second = halves(log, seed)
    if what := differing_shares(first, second):
        hint = "" if seed is not None else " If the log is sorted, evaluate it with --shuffle."
        errors.print(f"[yellow]The halves of the log differ:[/] {escape(what)}.{hint}", highlight=False)
    propensities = None
    if estimates_propensities:
        propensities = estimate_propensities(second)
        second = propensities.log
    return Shared(first, second, cross_fit_rewards(second), propensities, reward_range, greedy)


def _logged(log: Any) -> dict[str, Any]:
    """Mean reward of the logged decisions."""
    from releaf.evaluate.estimators import mean_estimate

    value = mean_estimate(log.rewards, len(log))
    estimate = {"value": value.value, "low": value.low, "high": value.high}
    return {"policy": OWN, **dict.fromkeys(METHODS, estimate), "effective_rows": len(log), "problems": []}


def _line(shared: Shared, task: tuple[str, Any, bool]) -> tuple[dict[str, Any], Any]:
    """Estimates of a policy's mean reward, and its decisions; it is trained on the first half unless it is a model."""
    import warnings
    from dataclasses import asdict

    from releaf import evaluate as off_policy

    name, learner, learns = task
    first, second = shared.first, shared.second
    if learns:
        low, high = shared.reward_range
        scaled = first.rewards if learner.traits.has_reward_range else (first.rewards - low) / (high - low)
        learner.learn_log(first.contexts, [first.actions[index] for index in first.taken.tolist()], scaled)
    chosen = _greedy_choices(learner, second) if shared.greedy else off_policy.choices(learner, second)
    overlap = off_policy.overlap(shared.propensities or second, chosen)
    line: dict[str, Any] = {"policy": name, "effective_rows": overlap.effective_rows}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", off_policy.SupportWarning)  # the overlap says it
        found = off_policy.estimate_all(second, chosen, shared.rewards, reward_range=shared.reward_range)
    for method, value in found.items():
        line[method] = {"value": value.value, "low": value.low, "high": value.high}
    line |= {"overlap": asdict(overlap), "problems": overlap.problems}
    if shared.propensities is not None:
        line["breakdown"] = off_policy.breakdown(second, chosen, float(second.rewards.mean()))
    return line, chosen


def _greedy_choices(learner: Any, log: Any) -> Any:
    """The action with the highest estimate in each row, among the eligible ones."""
    import numpy as np

    estimates = np.asarray(learner.estimate(log.contexts))
    if log.eligible is not None:
        estimates = np.where(log.eligible, estimates, -np.inf)
    return estimates.argmax(axis=1)


def _draw(path: Path, log: Any, chosen: dict[str, Any]) -> None:
    from releaf import plot

    with error_messages():
        plot.weights(log, chosen).save(str(path))


def _show(lines: list[dict[str, Any]], shown: tuple[str, ...], propensities: Any) -> None:
    from releaf.report.terminal import table

    note = "95 % confidence intervals in brackets. Effective rows: the effective sample size."
    if propensities is not None:
        note += (
            " Breakdown: the largest factor Λ by which hidden confounders may change the odds of an action while the "
            "policy is still shown to be better than the log's own (0: it is not shown)."
        )
    made = table("Mean reward, estimated on the second half of the log", note)
    made.add_column("", no_wrap=True)
    for name in (*(method.upper() for method in shown), "effective rows"):
        made.add_column(name, justify="right", no_wrap=True)
    if propensities is not None:
        made.add_column("breakdown", justify="right", no_wrap=True)
    for line in lines:
        rows = f"{line['effective_rows']:,.0f}"
        cells = [_interval(line[method]) for method in shown]
        cells.append(f"[yellow]{rows}[/]" if line["problems"] else rows)
        if propensities is not None:
            cells.append(f"{line['breakdown']:.2f}" if "breakdown" in line else "")
        made.add_row(line["policy"], *cells)
    console.print(made)
    for line in lines:
        for problem in line["problems"]:
            console.print(f"[yellow]{line['policy']}:[/] {problem}.")
    if propensities is not None:
        _show_propensities(propensities)


def _show_propensities(propensities: Any) -> None:
    from releaf.evaluate.propensities import ASSUMPTION

    console.print(
        f"Propensities were estimated by {propensities.classifier}: log loss {propensities.log_loss:.3f}, "
        f"{propensities.base_loss:.3f} without features."
    )
    console.print(f"[yellow]{ASSUMPTION}[/]")


def _interval(estimate: dict[str, float]) -> str:
    if not estimate["low"] < estimate["high"]:
        return f"{estimate['value']:.4f} [–]"
    return f"{estimate['value']:.4f} [{estimate['low']:.4f}, {estimate['high']:.4f}]"
