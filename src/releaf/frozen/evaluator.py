"""Evaluator of frozen policies: decides by a policy that releaf exported, with the standard library only.

This file needs no other: copy it to wherever decisions are made.

    policy = load_policy("policy.json")
    decision = policy.decide({"age": 41, "dose": 0.5}, seed=7)
    decision.action, decision.probability
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import struct
import zlib
from bisect import bisect_left, bisect_right
from calendar import isleap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from typing import Any

VERSION = 1  # of the format
MISSING = -1.0  # encodes a missing number
MOST_SEED = 2**64 - 1
WORDS = {
    **dict.fromkeys(("true", "yes", "y", "t", "on", "1"), 1),
    **dict.fromkeys(("false", "no", "n", "f", "off", "0"), 0),
}
ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d.*)?)?", re.IGNORECASE)
ZONE = re.compile(r" (?=UTC$|Z$|[+-]\d\d:?\d\d$)", re.IGNORECASE)
EPOCH, DAY = datetime(1970, 1, 1), 86_400_000_000  # microseconds
Rule = Callable[[list[float], list[int]], tuple[list[float], Callable[["Generator"], int]]]


class PolicyFileError(ValueError):
    """A file that is no frozen policy which this evaluator can read."""


@dataclass(frozen=True)
class FrozenDecision:
    """A decision: the action, its index and probability, the probability of every action, and the seed."""

    action: Any
    index: int
    probability: float
    probabilities: tuple[float, ...]
    seed: int


def load_policy(path: str | os.PathLike[str]) -> FrozenPolicy:
    """Load the file that ``export`` wrote."""
    with open(path, encoding="utf-8") as file:
        return read_policy(file.read(), os.fspath(path))


def read_policy(content: str | bytes | Mapping[str, Any], name: str = "the policy") -> FrozenPolicy:
    """Read a frozen policy from its text, or from the parsed JSON."""
    try:
        document = json.loads(content) if isinstance(content, str | bytes) else content
    except ValueError as error:
        raise PolicyFileError(f"{name} is not JSON, or not complete: {error}") from None
    if not isinstance(document, Mapping) or document.get("format") != "releaf-policy":
        raise PolicyFileError(f"{name} is no frozen policy: expected a file that releaf's export wrote")
    version = document.get("version")
    if version != VERSION:
        raise PolicyFileError(
            f"{name} has version {version!r} of the format: this evaluator reads version {VERSION}; "
            "update the evaluator"
        )
    content_of = {key: value for key, value in document.items() if key != "checksum"}
    if document.get("checksum") != f"{checksum(content_of):08x}":
        raise PolicyFileError(f"{name} is damaged: its checksum does not match; export it again")
    return FrozenPolicy(document)


def checksum(value: Any) -> int:
    """CRC-32 of a JSON value: numbers as float64, texts in UTF-8, keys sorted. White space does not matter."""
    code = 0
    for part in _parts(value):
        code = zlib.crc32(part, code)
    return code


def _parts(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool):
        yield {None: b"n", True: b"t", False: b"f"}[value]
    elif isinstance(value, str):
        yield b'"' + value.encode() + b'"'
    elif isinstance(value, int | float):
        yield struct.pack("<d", value)
    elif isinstance(value, Mapping):
        yield b"{"
        for key in sorted(value):
            yield from _parts(key)
            yield from _parts(value[key])
        yield b"}"
    else:
        yield b"["
        for entry in value:
            yield from _parts(entry)
        yield b"]"


class Generator:
    """The random generator splitmix64: a seed is its state."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MOST_SEED
        mixed = (self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9 & MOST_SEED
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & MOST_SEED
        return mixed ^ (mixed >> 31)

    def below(self, count: int) -> int:
        return self.word() % count

    def unit(self) -> float:
        return (self.word() >> 11) * 2.0**-53


class FrozenPolicy:
    """A policy as it was when it was exported: it decides, and learns nothing."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.actions = tuple(document["actions"])
        self.features = tuple(feature["name"] for feature in document["features"])
        self._encoders = [_encoder(feature) for feature in document["features"]]
        kind = document["rule"]["kind"]
        if kind not in RULES:
            raise PolicyFileError(f"unknown rule {kind!r}: update the evaluator")
        self._rule: Rule = RULES[kind](document)

    def __repr__(self) -> str:
        counts = f"{len(self.actions)} actions, {len(self.features)} features"
        return f"FrozenPolicy({self.document['policy']}, {counts}, after {self.document['decisions']:,} decisions)"

    def decide(self, context: Any, *, seed: int | None = None, eligible: Sequence[Any] | None = None) -> FrozenDecision:
        """Choose an action: the same for the same context, seed and eligible actions.

        Parameters
        ----------
        context
            A sequence, or a mapping from feature names.
        seed
            A whole number from 0 to 2**64 - 1, another one for each decision; random when None.
        eligible
            The actions that may be chosen; all when None.
        """
        if seed is None:
            seed = secrets.randbits(53)  # every JSON parser reads it exactly
        elif isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MOST_SEED:
            raise ValueError(f"seed must be a whole number from 0 to 2**64 - 1, got seed={seed!r}")
        chances, draw = self._apply(context, eligible)
        index = draw(Generator(seed))
        return FrozenDecision(self.actions[index], index, chances[index], tuple(chances), seed)

    def probabilities(self, context: Any, *, eligible: Sequence[Any] | None = None) -> tuple[float, ...]:
        """Probability of each action in a context."""
        return tuple(self._apply(context, eligible)[0])

    def _apply(self, context: Any, eligible: Sequence[Any] | None) -> tuple[list[float], Callable[[Generator], int]]:
        among = self._eligible(eligible)
        return self._rule(self.encode(context), among)

    def _eligible(self, eligible: Sequence[Any] | None) -> list[int]:
        if eligible is None:
            return list(range(len(self.actions)))
        if isinstance(eligible, str | bytes | dict) or not hasattr(eligible, "__iter__"):
            raise TypeError(f"eligible must be a sequence of action names, got {eligible!r}")
        given: set[int] = set()
        for action in eligible:
            is_mark = isinstance(action, bool) and not any(isinstance(name, bool) for name in self.actions)
            if is_mark or action not in self.actions:  # True == 1
                raise ValueError(f"eligible names an unknown action {action!r}: the actions are {self.actions!r}")
            if (index := self.actions.index(action)) in given:
                raise ValueError(f"eligible names {action!r} twice: expected each action once")
            given.add(index)
        if not given:
            raise ValueError(f"eligible names no action: expected at least one of {self.actions!r}")
        return sorted(given)

    def encode(self, context: Any) -> list[float]:
        """Encode a context as numbers in [0, 1], -1 for a missing number, as ``releaf.Schema`` does."""
        values = self._ordered(context)
        return [unit for encode, value in zip(self._encoders, values, strict=True) for unit in encode(value)]

    def _ordered(self, context: Any) -> Sequence[Any]:
        names = self.features
        if isinstance(context, Mapping):
            values = {str(key): value for key, value in context.items()}
            lacking = [repr(name) for name in names if name not in values]
            unknown = [repr(name) for name in values if name not in names]
            if lacking or unknown:
                parts = [f"lacks {', '.join(lacking)}"] if lacking else []
                parts += [f"has unknown {', '.join(unknown)}"] if unknown else []
                raise ValueError(f"context {' and '.join(parts)}; the features are {', '.join(names)}")
            return [values[name] for name in names]
        if isinstance(context, str | bytes) or not hasattr(context, "__getitem__") or not hasattr(context, "__len__"):
            raise TypeError(f"context must be a sequence or a mapping, got {context!r}")
        if len(context) != len(names):
            lacking = [repr(name) for name in names[len(context) :]]
            more = f" (missing: {', '.join(lacking)})" if lacking else ""
            raise ValueError(f"context has {len(context)} values, the schema has {len(names)}{more}")
        return context  # type: ignore[no-any-return]


# --- encoding -------------------------------------------------------------------------------------------------


def _encoder(feature: Mapping[str, Any]) -> Callable[[Any], list[float]]:
    """Function that encodes a feature's value."""
    name, expects, to_units = feature["name"], feature["expects"], KINDS[feature["kind"]](feature)
    when_missing = feature["when_missing"]

    def encode(value: Any) -> list[float]:
        if is_missing(value):
            if when_missing is None:
                raise ValueError(f"feature {name!r} is missing ({value!r}): expected {expects}")
            return when_missing  # type: ignore[no-any-return]
        try:
            return to_units(value)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"feature {name!r} is {value!r}: expected {expects}") from None

    return encode


def is_missing(value: Any) -> bool:
    """Whether a value is None or NaN."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError("text")
    return float(value)


def _continuous(feature: Mapping[str, Any]) -> Callable[[Any], list[float]]:
    low, high, clip = feature["low"], feature["high"], feature["clip"]

    def to_units(value: Any) -> list[float]:
        number = _number(value)
        if clip:
            number = min(max(number, low), high)
        if not low <= number <= high:
            raise ValueError
        return [(number - low) / (high - low)]

    return to_units


def _quantile(feature: Mapping[str, Any]) -> Callable[[Any], list[float]]:
    sample = feature["sample"]
    count = len(sample)

    def rank(value: Any) -> list[float]:
        number = _number(value)
        if not math.isfinite(number):
            raise ValueError
        below, upto = bisect_left(sample, number), bisect_right(sample, number)
        if count == 0:
            return [0.5]
        if below < upto:
            return [(below + upto) / (2 * count)]
        if below in (0, count):
            return [float(below == count)]
        left, right = sample[below - 1], sample[below]
        if right - left == math.inf:
            left, number, right = left / 2, number / 2, right / 2
        return [(below - 0.5 + (number - left) / (right - left)) / count]

    return rank


def _categorical(feature: Mapping[str, Any]) -> Callable[[Any], list[float]]:
    indices = {value: index for index, value in enumerate(feature["values"])}
    other, count = feature["other"], feature["categories"]

    def to_units(value: Any) -> list[float]:
        index = indices.get(value)
        if index is None:
            if not (other and isinstance(value, str | int | float)):
                raise ValueError
            index = len(indices)
        return [(index + 0.5) / count]

    return to_units


def _boolean(feature: Mapping[str, Any]) -> Callable[[Any], list[float]]:
    def to_units(value: Any) -> list[float]:
        if isinstance(value, str):
            value = WORDS.get(value.strip().lower(), value)
        if not (isinstance(value, int | float) and value in (0, 1)):
            raise ValueError
        return [(int(value) + 0.5) / feature["categories"]]

    return to_units


def _datetime(feature: Mapping[str, Any]) -> Callable[[Any], list[float]]:
    zone, missing, parts = _zone(feature["time_zone"]), feature["missing"], feature["parts"]
    low, high = (_moment(feature[name], zone) if feature[name] else 0 for name in ("start", "end"))

    def to_units(value: Any) -> list[float]:
        moment, units = _moment(value, zone), []
        day, time = divmod(moment, DAY)
        for part in parts:
            if part == "trend":
                units.append(min(max(float(moment - low) / float(high - low), 0.0), 1.0))
            elif part == "weekday":
                units.append(((day + 3) % 7 + 0.5) / (7 + missing))
            elif part == "hour":
                units.append((time * 24 // DAY + 0.5) / (24 + missing))
            else:
                units += _season(day)
        return units

    return to_units


def _zone(name: str) -> Any:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _moment(value: Any, zone: Any) -> int:
    """Microseconds from 1970 to a value, in local time."""
    if isinstance(value, str):
        text = value.strip()
        if not ISO.fullmatch(text):
            raise ValueError
        text = ZONE.sub("", text)
        value = datetime.fromisoformat(text[:-3] + "Z" if text[-3:].upper() == "UTC" else text)
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(zone).replace(tzinfo=None)
        return int((value - EPOCH) // timedelta(microseconds=1))
    if isinstance(value, date):
        return (value - EPOCH.date()).days * DAY
    raise TypeError


def _season(day: int) -> tuple[float, float]:
    """Sine and cosine of the day of the year, in [0, 1]."""
    at = EPOCH.date() + timedelta(days=day)
    angle = 2 * math.pi * (at - date(at.year, 1, 1)).days / (365 + isleap(at.year))
    return (1.0 + math.sin(angle)) / 2, (1.0 + math.cos(angle)) / 2


KINDS = {
    "continuous": _continuous,
    "quantile": _quantile,
    "categorical": _categorical,
    "boolean": _boolean,
    "datetime": _datetime,
}


# --- rules ----------------------------------------------------------------------------------------------------


def _certain(count: int, index: int) -> tuple[list[float], Callable[[Generator], int]]:
    """Take one action for certain."""
    return [float(action == index) for action in range(count)], lambda generator: index


def _uniform(count: int, among: list[int]) -> tuple[list[float], Callable[[Generator], int]]:
    chances = [0.0] * count
    for index in among:
        chances[index] = 1.0 / len(among)
    return chances, lambda generator: among[generator.below(len(among))]


def _best(scores: Any, among: Sequence[int]) -> int:
    """The action with the highest score, the first on ties."""
    best = among[0]
    for action in among:
        if scores[action] > scores[best]:
            best = action
    return best


def _greedy(count: int, best: int, among: list[int], rate: float) -> tuple[list[float], Callable[[Generator], int]]:
    """Take the best action, or with a probability any at random."""
    chances = [0.0] * count
    for index in among:
        chances[index] = rate / len(among)
    chances[best] = 1.0 - rate * (len(among) - 1) / len(among)

    def draw(generator: Generator) -> int:
        return among[generator.below(len(among))] if generator.unit() < rate else best

    return chances, draw


def _random(document: Mapping[str, Any]) -> Rule:
    return lambda row, eligible: _uniform(len(document["actions"]), eligible)


def _ranking(document: Mapping[str, Any]) -> Rule:
    """Take the first eligible action of a fixed order."""
    order, count = document["rule"]["order"], len(document["actions"])
    return lambda row, eligible: _certain(count, next(action for action in order if action in eligible))


def _epsilon_greedy(document: Mapping[str, Any]) -> Rule:
    rule, count = document["rule"], len(document["actions"])

    def decide(row: list[float], eligible: list[int]) -> tuple[list[float], Callable[[Generator], int]]:
        untried = [action for action in rule["untried"] if action in eligible]
        if untried:
            return _certain(count, untried[0])
        return _greedy(count, _best(rule["means"], eligible), eligible, rule["exploration"])

    return decide


def _columns(document: Mapping[str, Any], row: list[float]) -> list[float]:
    """Columns of a linear model: the intercept, numbers, indicators of missing numbers, and one-hot categories."""
    columns = [1.0] if document["rule"]["intercept"] else []
    for feature, value in zip(document["encoded"], row, strict=True):
        if feature["categories"]:
            place = int(value * feature["categories"])
            columns += [float(category == place) for category in range(feature["categories"])]
        elif feature["missing"]:
            columns += [max(value, 0.0), float(value < 0.0)]
        else:
            columns.append(value)
    return columns


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    total = 0.0
    for left, right in zip(one, other, strict=True):
        total += left * right
    return total


def _linear_epsilon_greedy(document: Mapping[str, Any]) -> Rule:
    rule, count = document["rule"], len(document["actions"])

    def decide(row: list[float], eligible: list[int]) -> tuple[list[float], Callable[[Generator], int]]:
        columns = _columns(document, row)
        means = {action: _dot(rule["weights"][action], columns) for action in eligible}
        return _greedy(count, _best(means, eligible), eligible, rule["exploration"])

    return decide


def _linucb(document: Mapping[str, Any]) -> Rule:
    rule, count = document["rule"], len(document["actions"])

    def decide(row: list[float], eligible: list[int]) -> tuple[list[float], Callable[[Generator], int]]:
        columns = _columns(document, row)
        filled = [place for place, value in enumerate(columns) if value != 0.0]
        bounds = {}
        for action in eligible:
            inverse, spread = rule["inverse"][action], 0.0
            for i in filled:
                push = 0.0
                for j in filled:
                    push += inverse[max(i, j)][min(i, j)] * columns[j]
                spread += push * columns[i]
            mean = _dot(rule["weights"][action], columns)
            bounds[action] = mean + rule["alpha"] * math.sqrt(max(spread, 0.0))
        return _certain(count, max(eligible, key=lambda action: (bounds[action], -rule["taken"][action])))

    return decide


class _Releaf:
    """RELEAF: explores actions with too few rewards in a cell of the context, else takes the highest estimate."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.rule = rule = document["rule"]
        self.encoded, self.count = document["encoded"], len(document["actions"])
        self.candidates = [tuple(candidate) for candidate in rule["candidates"]]
        place_of = {candidate: place for place, candidate in enumerate(self.candidates)}
        size = len(self.candidates[0])
        self.contained = [[place_of[part] for part in combinations(one["features"], size)] for one in rule["tuples"]]
        self.cells = [{cell[0]: cell for cell in one["cells"]} for one in rule["tuples"]]
        self.empty = [0, *[0, 0.0] * self.count]

    def __call__(self, row: list[float], eligible: list[int]) -> tuple[list[float], Callable[[Generator], int]]:
        rule, leaves = self.rule, self._leaves(row)
        cells, short = [], set()
        for one, known in zip(rule["tuples"], self.cells, strict=True):
            place, need = 0, 0.0
            for feature in one["features"]:
                partition = rule["partitions"][feature]
                place = place * len(partition["lengths"]) + leaves[feature]
                need = max(need, rule["control"] * partition["weights"][leaves[feature]])
            cell = known.get(place, self.empty)
            cells.append(cell)
            short |= {action for action in eligible if cell[1 + 2 * action] < need}
        if short:
            return _uniform(self.count, sorted(short))
        lengths = [rule["partitions"][feature]["lengths"][leaf] for feature, leaf in enumerate(leaves)]
        values = {action: self._values(cells, lengths, action) for action in eligible}

        def draw(generator: Generator) -> int:
            drawn = {}
            for action, known in values.items():
                drawn[action] = known[generator.below(len(known))] if len(known) > 1 else known[0]
            return _best(drawn, eligible)

        return self._chances(values), draw

    def _leaves(self, row: list[float]) -> list[int]:
        found = []
        for feature, partition, value in zip(self.encoded, self.rule["partitions"], row, strict=True):
            if value < 0.0:
                found.append(len(partition["lengths"]) - 1)
            elif feature["categories"]:
                found.append(int(value * feature["categories"]))
            else:
                found.append(bisect_left(partition["borders"], value))
        return found

    def _values(self, cells: list[Any], lengths: list[float], action: int) -> list[float]:
        """Estimates of an action by its relevant candidate; by each, of which one is drawn, where there is none."""
        n, s = 1 + 2 * action, 2 + 2 * action
        candidates = range(len(self.candidates))
        members: list[list[Any]] = [[] for _ in candidates]
        for cell, contained in zip(cells, self.contained, strict=True):
            for candidate in contained:
                members[candidate].append(cell)
        best, smallest = -1, 1e300
        for candidate in candidates:
            means = [cell[s] / cell[n] for cell in members[candidate]]
            variation = max(means) - min(means)
            limit = self.rule["limit"] * max(lengths[feature] for feature in self.candidates[candidate])
            if variation <= limit and variation < smallest:
                best, smallest = candidate, variation
        return [_weighted(members[candidate], n, s) for candidate in (candidates if best < 0 else [best])]

    def _chances(self, values: Mapping[int, list[float]]) -> list[float]:
        """Probability that each action has the highest estimate, the first on ties."""
        chances = [0.0] * self.count
        for action, own in values.items():
            for value in own:
                chance = 1.0 / len(own)
                for other, theirs in values.items():
                    if other != action:
                        lower = sum(one < value or (one == value and other > action) for one in theirs)
                        chance *= lower / len(theirs)
                chances[action] += chance
        return chances


def _weighted(cells: list[Any], n: int, s: int) -> float:
    """Count-weighted mean of cells."""
    if len(cells) == 1:
        return float(cells[0][s] / cells[0][n])
    weighted, count = 0.0, 0
    for cell in cells:
        weighted += cell[s] / cell[n] * cell[n]
        count += cell[n]
    return weighted / count


def _floors(least: float | list[float], eligible: list[int], count: int) -> tuple[list[float], float]:
    """Lower bounds of the actions' probabilities, one for all or one for each, and what is left of 1."""
    chances = [0.0] * count
    if isinstance(least, list):
        sure = 1.0
        for action in eligible:
            chances[action] = least[action]
            sure -= least[action]
        return chances, max(sure, 0.0)
    floor = min(least, 1.0 / len(eligible))
    for action in eligible:
        chances[action] = floor
    return chances, 1.0 - len(eligible) * floor


class _Adaptive:
    """AdaptiveReleaf: experts' estimates, mixed, and a drawn degree of optimism."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.rule, self.encoded = document["rule"], document["encoded"]
        self.trees = [[_float32_nodes(tree) for tree in model["trees"]] for model in self.rule["models"]]
        self.ranks = [[ranks and _floats32(ranks) for ranks in model["ranks"]] for model in self.rule["models"]]

    def __call__(self, row: list[float], eligible: list[int]) -> tuple[list[float], Callable[[Generator], int]]:
        rule, count = self.rule, len(self.rule["models"])
        rounded, means, bonuses = _floats32(row), {}, {}
        for action in eligible:
            means[action], bonuses[action] = self._estimate(action, row, rounded)
        if rule["optimism"] is None:
            return _certain(count, _best(means, eligible))
        chances, sure = _floors(rule["least_probability"], eligible, count)
        for optimism in rule["optimism"]:
            upper = {action: means[action] + optimism * bonuses[action] for action in eligible}
            highest = max(upper.values())
            equal = [action for action in eligible if upper[action] == highest]
            for action in equal:
                chances[action] += sure / (len(rule["optimism"]) * len(equal))
        return chances, lambda generator: _drawn(chances, generator.unit())

    def _estimate(self, action: int, row: list[float], rounded: list[float]) -> tuple[float, float]:
        """Estimated reward, and the bonus that a degree of optimism of 1 adds."""
        rule, model = self.rule, self.rule["models"][action]
        columns = self._columns(model, rounded)
        effect, spread = 0.0, 0.0
        for feature, effects in enumerate(model["effects"]):
            if effects:
                place = int(row[feature] * self.encoded[feature]["categories"]) % len(effects["means"])
                effect += effects["means"][place]
                spread += effects["variances"][place]
        offset, weights, lines = model["offset"] + effect, model["weights"], model["line_weights"]
        additive = line = 0.0
        for place, value in columns:
            additive += weights[place] * value
            if place < len(lines):
                line += lines[place] * value
        additive = min(max(offset + additive, 0.0), 1.0)
        experts = [min(max(offset + line, 0.0), 1.0), additive, *[additive] * 3]
        if self.trees[action]:
            experts[2:] = self._trees(action, row, rounded)
        mean = 0.0
        for weight, expert in zip(model["experts"], experts, strict=True):
            mean += weight * expert
        return mean, _bonus(rule, model, _variance(model["covariance"], columns) + spread)

    def _columns(self, model: Mapping[str, Any], rounded: list[float]) -> list[tuple[int, float]]:
        """The columns of a context that are not 0."""
        outside = sum(not low <= value <= high for value, (low, high) in zip(rounded, model["ranges"], strict=True))
        columns = [(0, 1.0), (1, 0.5 * min(float(outside), self.rule["most_outside"]))]
        places = [self._place(model, feature, value) for feature, value in enumerate(rounded)]
        for start, first, levels, second, other_levels, width in model["tables"]:
            down, here, below = self._spread(model, places, first, levels)
            if second < 0:
                columns += [(start + down, here), (start + down + 1, below)]
                continue
            across, left, right = self._spread(model, places, second, other_levels)
            corner = start + down * width + across
            columns += [(corner, here * left), (corner + 1, here * right)]
            columns += [(corner + width, below * left), (corner + width + 1, below * right)]
        return [(place, value) for place, value in columns if value != 0.0]

    def _place(self, model: Mapping[str, Any], feature: int, value: float) -> tuple[float, float]:
        """Position of a value among its feature's levels, and its standardized value."""
        if self.encoded[feature]["categories"]:
            return float(int(value * self.encoded[feature]["categories"])), 0.0
        if value < 0.0:
            return MISSING, 0.0
        knots, (centre, scale), most = model["knots"][feature], model["scales"][feature], self.rule["highest"]
        height = min(max((value - centre) * scale, -most), most)
        for level in range(1, len(knots)):
            if value <= knots[level]:
                return level - 1 + (value - knots[level - 1]) / (knots[level] - knots[level - 1]), height
        return len(knots) - 1.0, height

    def _spread(
        self, model: Mapping[str, Any], places: list[tuple[float, float]], feature: int, levels: int
    ) -> tuple[int, float, float]:
        """Column of a value in a table, its share, and the share of the next column."""
        place, height = places[feature]
        if self.encoded[feature]["categories"]:
            return int(place), 1.0, 0.0
        if levels == 0:
            return 0, height, 0.0
        if place < 0.0:
            return levels, 1.0, 0.0
        last, known = levels - 1, len(model["knots"][feature])
        scaled = place if known == levels else place * last / (known - 1.0)
        first = min(int(scaled), last - 1)
        share = scaled - first
        return first, 1.0 - share, share

    def _trees(self, action: int, row: list[float], rounded: list[float]) -> list[float]:
        """Mean over trees of the leaves, little and much shrunk, and steady."""
        values = [
            ranks[int(value * feature["categories"])] if ranks else single
            for ranks, value, single, feature in zip(self.ranks[action], row, rounded, self.encoded, strict=True)
        ]
        little, much = self.rule["shrinkage"]
        sharp = smooth = steady = 0.0
        for nodes in self.trees[action]:
            node = nodes[0]
            while len(node) == 3:
                node = nodes[int(node[2]) + (values[int(node[0])] > node[1])]
            count, total, prior, own = node
            sharp += (total + little * prior) / (count + little)
            smooth += (total + much * prior) / (count + much)
            steady += own
        trees = len(self.trees[action])
        return [sharp / trees, smooth / trees, steady / trees]


def _variance(covariance: Sequence[Sequence[float]], columns: list[tuple[int, float]]) -> float:
    if not covariance:
        return 0.0
    total = 0.0
    for i, (row, factor) in enumerate(columns):
        total += 0.5 * covariance[row][row] * factor * factor
        for column, value in columns[:i]:
            total += covariance[max(row, column)][min(row, column)] * value * factor
    return max(2.0 * total, 0.0)


def _bonus(rule: Mapping[str, Any], model: Mapping[str, Any], spread: float) -> float:
    if spread <= model["usual_variance"]:
        return math.sqrt(spread)
    return math.sqrt(spread * (1.0 + rule["eagerness"] * math.log(spread / model["usual_variance"])))


def _drawn(chances: list[float], left: float) -> int:
    """The action at which the sum of the probabilities exceeds a number."""
    last = 0
    for action, chance in enumerate(chances):
        if chance > 0.0:
            last = action
            left -= chance
            if left < 0.0:
                break
    return last


def _floats32(values: Sequence[float]) -> list[float]:
    """Round numbers to float32."""
    form = f"<{len(values)}f"
    return list(struct.unpack(form, struct.pack(form, *values)))


def _float32_nodes(tree: Sequence[Sequence[float]]) -> list[list[float]]:
    return [_floats32(node) for node in tree]


RULES: dict[str, Callable[[Mapping[str, Any]], Rule]] = {
    "random": _random,
    "ranking": _ranking,
    "epsilon-greedy": _epsilon_greedy,
    "linear-epsilon-greedy": _linear_epsilon_greedy,
    "linucb": _linucb,
    "releaf": _Releaf,
    "adaptive": _Adaptive,
}
