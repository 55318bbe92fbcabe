"""Learners in files: trained from a log, asked for decisions, and asked why."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.markup import escape

from releaf.cli import fitting
from releaf.cli.console import Json, console, errors, explained, fail, print_json, show_problems, steps_bar

POLICY = "AdaptiveReleaf"
LOOKED_AT = 100_000  # rows that features are guessed from
SHADES = " ░▒▓█"
Model = Annotated[Path, typer.Argument(help="A learner that `releaf train` or `save` wrote.")]


# Columns of a log that the decision service exported, which are no features.
SERVICE_COLUMNS = {"decision", "at", "explored", "wants_reward", "outcome", "rewarded_at"}


def train(
    log: Annotated[
        Path, typer.Argument(help="A CSV, Parquet or Arrow file of decisions, of any size; or a folder of Parquet.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the learner.")],
    action: Annotated[str, typer.Option(help="The column of the action that was taken.")] = "action",
    reward: Annotated[str, typer.Option(help="The column of what it earned.")] = "reward",
    schema: Annotated[Path | None, typer.Option(help="The features as TOML; guessed otherwise.")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    policy: Annotated[str | None, typer.Option(help="The learner (AdaptiveReleaf).")] = None,
    option: Annotated[list[str] | None, typer.Option(help="name=value of the learner; may be repeated.")] = None,
    reward_range: Annotated[
        tuple[float, float] | None, typer.Option(help="The lowest and the highest reward (0 and 1).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the learner's own generator (0).")] = None,
    go_on: Annotated[Path | None, typer.Option(help="A learner to go on with, instead of a new one.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out broken rows, and report them.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Sum parts of a Parquet log in so many processes (policy Releaf).")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Sum them on a Ray cluster: auto, local, or its address (policy Releaf).")
    ] = None,
    probability: Annotated[
        str | None, typer.Option(help="With --workers or --ray: a column of probabilities to weigh rewards by.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from a log of decisions: what was known, what was done, what it earned.

    Row by row, with any policy; or, with --workers or --ray or a folder of Parquet files, all rows summed on the
    partitions that they lead to, many parts at once: the same Releaf learner on one core and on a cluster.
    """
    import time

    import releaf
    from releaf.streams.batches import about_rows_in
    from releaf.streams.tables import kind_of
    from releaf.train import learn_file

    with explained():
        if workers is not None or ray is not None or log.is_dir() or "*" in str(log):
            if (policy or "Releaf") != "Releaf" or go_on is not None or reward_range is not None:
                fail("--workers, --ray and folders are for --policy Releaf, without --go-on and --reward-range")
            if policy is None:
                errors.print("In parts, a log is summed for a Releaf learner; others learn one file row by row.")
            names = {"action": action, "reward": reward, "probability": probability}
            left_out = [name for name in (*names.values(), *(leave_out or [])) if name]
            fitting.fit(
                log,
                output,
                features=fitting.features_of(log, schema, left_out),
                options=_options(option, seed or 0, None),
                columns=names,
                skip_bad=skip_bad,
                workers=workers,
                ray=ray,
                as_json=as_json,
            )
            return
        if probability is not None:
            fail("--probability goes with --workers or --ray: row by row, rewards are learnt as they are")
        if go_on is not None:
            if any(given is not None for given in (policy, schema, option, reward_range, seed)):
                fail("--go-on goes on with a learner as it is: no --policy, --schema, --option, --reward-range, --seed")
            learner = releaf.load(go_on)
        else:
            options = _options(option, seed or 0, reward_range)
            learner = _new_learner(log, policy or POLICY, options, action, reward, schema, leave_out or [])
        started = time.perf_counter()
        with steps_bar() as progress:
            task = progress.add_task("compiling, once only", total=about_rows_in(log))
            going = f"learning from {log.name}"
            report = learn_file(
                learner,
                log,
                action=action,
                reward=reward,
                skip_bad=skip_bad,
                progress=lambda rows: progress.update(task, completed=rows, description=going),
            )
        seconds = time.perf_counter() - started
        output.parent.mkdir(parents=True, exist_ok=True)
        learner.save(output)
    show_problems(str(log), "line" if kind_of(log) == "csv" else "row", report.problems, report.left_out)
    if as_json:
        unit = "line" if kind_of(log) == "csv" else "row"
        problems = [{unit: line, "problem": why} for line, why in report.problems]
        told = {"learnt": report.learnt, "left_out": report.left_out, "problems": problems, "seconds": seconds}
        print_json({"model": str(output), "policy": type(learner).__name__, "actions": learner.actions, **told})
        return
    speed = f"{report.learnt / max(seconds, 1e-9):,.0f} rows a second"
    console.print(f"{output} has learnt {report.learnt:,} rows ({speed}): {escape(repr(learner))}", highlight=False)
    console.print(f"Next: releaf relevance {output}, or releaf decide {output} < rows.csv", highlight=False)


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
    log: Path, policy: str, options: dict[str, Any], action: str, reward: str, schema: Path | None, leave_out: list[str]
) -> Any:
    """A learner of the features and actions that the first rows of a log show."""
    from releaf.streams.batches import no_column
    from releaf.streams.tables import plain_actions, read_first, sorted_actions
    from releaf.train.stream import MOST_ACTIONS

    columns, more = read_first(log, LOOKED_AT)
    for name in (action, reward, *leave_out):
        if name not in columns:
            fail(no_column(log, name, columns))
    if schema is not None:
        features = _read_schema(schema)
    else:
        features = guessed(columns, [action, reward, *leave_out], more)
        errors.print(f"Features guessed from the first rows: {escape(', '.join(features.names))}", highlight=False)
    for name in (action, reward):
        if name in features.names:
            fail(f"{name!r} is a feature of {schema}, and can't be the action or the reward too")
    labels = {label for label in plain_actions(columns[action]) if label is not None}
    if len(labels) > MOST_ACTIONS:
        fail(f"column {action!r} has {len(labels):,} different values: is it the action that was taken?")
    made = make_policy(policy)
    unknown = [name for name in options if name not in made.parameters]
    if unknown:
        fail(f"{policy} has no option {unknown[0]!r}; it has {', '.join(made.parameters)}")
    return made(sorted_actions(labels), features, **options)


def _read_schema(path: Path) -> Any:
    from releaf import Schema

    return Schema.from_toml(path.read_text(encoding="utf-8"))


def guessed(columns: dict[str, Any], leave_out: list[str], more: bool) -> Any:
    """The schema of some rows; where there may be more of them, values may be missing later."""
    from releaf import Schema
    from releaf.features import feature_from_dict, feature_to_dict

    left_out = list(dict.fromkeys([*leave_out, *(SERVICE_COLUMNS if set(columns) >= SERVICE_COLUMNS else ())]))
    if "probability" in columns and "probability" not in left_out:
        errors.print("The column 'probability' is taken for that of the actions, and left out.", highlight=False)
        left_out.append("probability")
    schema = Schema.guess(columns, leave_out=left_out)
    if not more:
        return schema
    described = zip(schema.names, schema.features, strict=True)
    return Schema({name: feature_from_dict({**feature_to_dict(f), "missing": True}) for name, f in described})


def make_policy(name: str) -> Any:
    """The policy of a name."""
    from releaf import policies

    known = [found for found in policies.__all__ if hasattr(getattr(policies, found), "traits")]
    if name not in known:
        fail(f"there is no policy {name!r}; expected one of {', '.join(known)}")
    return getattr(policies, name)


# --- decisions ------------------------------------------------------------------------------------------------


def decide(
    model: Model,
    rows: Annotated[
        Path | None, typer.Argument(help="Contexts as CSV with a header, or one JSON object a line; stdin when none.")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Keep the decisions in the model, for rewards to come.")] = False,
    as_json: Json = False,
) -> None:
    """Decide for rows: contexts in, decisions out, line by line.

    Broken rows are reported on stderr with their line; the others are decided all the same, and the exit code is 1.
    """
    import releaf
    from releaf.streams.files import open_text

    broken = 0
    with explained():
        learner = releaf.load(model)
        source = "stdin" if rows is None else str(rows)
        with sys.stdin if rows is None else open_text(rows) as file:
            first = file.readline().removeprefix("\ufeff")
            as_json = as_json or first.lstrip().startswith("{")
            write = _write_json if as_json else _write_csv
            for line, context in _contexts(file, first, learner.schema, source, header=not as_json):
                try:
                    if isinstance(context, Exception):
                        raise context
                    choice = learner.decide(context)
                except (ValueError, TypeError) as error:
                    broken += 1
                    errors.print(f"{escape(source)}, line {line}: {escape(str(error))}", highlight=False)
                    continue
                write(line, choice, learner)
        if save:
            learner.save(model)
    raise typer.Exit(1 if broken else 0)


def _contexts(file: IO[str], first: str, schema: Any, source: str, header: bool) -> Iterator[tuple[int, Any]]:
    """Each line and its context, or what is wrong with it."""
    if first.lstrip().startswith("{"):
        for number, text in enumerate(chain([first], file), 1):
            if text.strip():
                yield number, _parsed(text, schema.names)
        return
    yield from _csv_contexts(file, first, schema, source, header)


def _parsed(text: str, names: tuple[str, ...]) -> Any:
    """A JSON object, without what is no feature; or what is wrong with it."""
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        return ValueError(f"no JSON: {error}")
    return {name: given[name] for name in names if name in given} if isinstance(given, dict) else given


def _csv_contexts(file: IO[str], first: str, schema: Any, source: str, header: bool) -> Iterator[tuple[int, Any]]:
    from releaf.streams.batches import converted
    from releaf.streams.tables import read_header, records

    names = read_header(csv.reader([first]), source)
    lacking = [name for name in schema.names if name not in names]
    if lacking:
        raise ValueError(f"{source} has no column {lacking[0]!r}; it has {', '.join(names)}")
    if header:
        print("line,id,action,probability,explored,wants_reward")
    wanted = [(name, names.index(name), feature) for name, feature in zip(schema.names, schema.features, strict=True)]
    for line, row in records(csv.reader(file), source):
        if len(row) == len(names):
            yield line + 1, {name: converted([row[place]], feature)[0] for name, place, feature in wanted}
        elif row:
            yield line + 1, ValueError(f"{len(row)} fields, expected {len(names)}")


def _write_csv(line: int, choice: Any, learner: Any) -> None:
    chance = "" if choice.probability is None else f"{choice.probability:.12g}"
    csv.writer(sys.stdout, lineterminator="\n").writerow(
        [line, choice.id, choice.action, chance, choice.explored, choice.wants_reward]
    )


def _write_json(line: int, choice: Any, learner: Any) -> None:
    print_json({"line": line, **described(choice, learner)})


def described(choice: Any, learner: Any) -> dict[str, Any]:
    """A decision as plain data."""
    names = learner.schema.names
    told = {name: getattr(choice, name) for name in ("id", "action", "probability", "explored", "wants_reward")}
    if choice.estimates is not None:
        told["estimates"] = dict(zip(map(str, learner.actions), choice.estimates, strict=True))
    if choice.relevant is not None:
        chosen = choice.relevant[choice.index]
        told["relevant"] = None if chosen is None else [names[place] for place in chosen]
    return told


# --- what it has learnt ---------------------------------------------------------------------------------------


def relevance(
    model: Model,
    png: Annotated[Path | None, typer.Option(help="Write a picture.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the picture, that works offline.")] = None,
    as_json: Json = False,
) -> None:
    """Show which features matter for which action, as a heat map."""
    import releaf

    with explained():
        learner = releaf.load(model)
        if not hasattr(learner, "relevance"):
            fail(f"{type(learner).__name__} does not tell features from one another: it has no relevance")
        shares = learner.relevance()
        for path in (png, html):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                releaf.plot.relevance(learner).save(str(path))
    if as_json:
        rows = {str(label): row for label, row in zip(learner.actions, shares.tolist(), strict=True)}
        print_json({label: dict(zip(learner.schema.names, row, strict=True)) for label, row in rows.items()})
        return
    console.print(_heat_map(learner, shares))
    for path in (png, html):
        if path is not None:
            console.print(f"{path} has the picture.", highlight=False)


def _heat_map(learner: Any, shares: Any) -> Any:
    from releaf.report.terminal import table

    made = table("Relevance: the share of each feature, for each action", "The darkest is the most relevant.")
    made.add_column("")
    for action in learner.actions:
        made.add_column(escape(str(action)), justify="right", no_wrap=True)
    order = sorted(range(len(learner.schema)), key=lambda place: -float(shares[:, place].max()))
    highest = max(float(shares.max()), 1e-12)
    for place in order:
        cells = [_cell(float(share), highest) for share in shares[:, place]]
        made.add_row(escape(learner.schema.names[place]), *cells)
    return made


def _cell(share: float, highest: float) -> str:
    shade = SHADES[min(round(share / highest * (len(SHADES) - 1)), len(SHADES) - 1)]
    style = "bold" if share > 0.5 * highest else "dim" if share < 0.05 * highest else ""
    text = f"{shade * 3} {share:4.0%}"
    return f"[{style}]{text}[/]" if style else text


def explain(
    model: Model,
    row: Annotated[str, typer.Argument(help="A context: a JSON object, or its values in order with commas between.")],
    as_json: Json = False,
) -> None:
    """Tell what the learner would do now, and why. Nothing changes in the model."""
    import releaf

    with explained():
        learner = releaf.load(model)
        choice = learner.preview(_one_context(row, learner.schema))
        why = learner.explain(choice) if hasattr(learner, "explain") else None
    if as_json:
        print_json({**described(choice, learner), "explanation": why})
        return
    console.print(escape(why or repr(choice)), highlight=False)


def _one_context(row: str, schema: Any) -> Any:
    from releaf.streams.batches import converted

    if row.lstrip().startswith("{"):
        context = _parsed(row, schema.names)
        if isinstance(context, Exception):
            raise ValueError(f"the row is {context}")
        return context
    values = next(csv.reader([row]), [])
    if len(values) != len(schema):
        raise ValueError(f"the row has {len(values)} values, expected {len(schema)}: {', '.join(schema.names)}")
    return [converted([value], feature)[0] for value, feature in zip(values, schema.features, strict=True)]
