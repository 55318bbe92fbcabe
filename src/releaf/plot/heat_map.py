"""Heat maps of relevance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.chart_import import import_charts
from releaf.evaluate.ledger import Ledger
from releaf.plot.named_results import named_results
from releaf.policy import Policy

MAX_WRITTEN = 200  # tiles up to which a heat map shows values
MIN_TILE = 48  # width in points of a tile with a number
OF_VARIANCE = "of the reward's variance"
LETTER = 7  # maximum width of a letter in points


def relevance(
    results: Any, *, actions: Sequence[Any] | None = None, features: Sequence[str] | None = None, most: int = 60
) -> Any:
    """Heat map of the relevance of each feature to each action, the most relevant features first.

    Tiles have the share of each feature in what is explained of an action's reward. If the learner knows how much that
    is, it is written below, and a tile is the darker the more of the reward's variance the feature explains: a feature
    that alone explains hardly anything has a share of 100 %, and stays pale.

    Parameters
    ----------
    results
        A learner with a method ``relevance``, or the ledger of its run; or several. Results of one name are averaged.
    actions, features
        Names, which a ledger does not have; those of the learner when None.
    most
        Maximum number of features, the most relevant ones.
    """
    charts = import_charts()
    maps = {name: _shared_table(name, runs, actions, features) for name, runs in named_results(results).items()}
    if any(table.explained is None for table in maps.values()):  # one measure for all
        maps = {name: table._replace(explained=None) for name, table in maps.items()}
    highest = max(float(table.strengths.max()) for table in maps.values()) or 1.0
    best: dict[str, float] = {}  # highest share of each feature, the sort key of all maps
    for table in maps.values():
        for feature, share in zip(table.features, table.shares.max(axis=0), strict=True):
            best[feature] = max(best.get(feature, 0.0), float(share))
    tiles = [_heat_map(charts, name, table, best, highest, most) for name, table in maps.items()]
    if len(tiles) == 1:
        return charts.finished(tiles[0])
    return charts.finished(charts.Grid(concat=tiles, columns=2).resolve_scale(x="independent", y="independent"))


class _Table(NamedTuple):
    """Relevance of each feature to each action (A × D), their names, and the share of the variance, if it is known."""

    shares: Array
    actions: list[str]
    features: list[str]
    explained: Array | None = None

    @property
    def strengths(self) -> Array:
        """What makes a tile dark."""
        return self.shares if self.explained is None else self.explained


def _shared_table(name: str, given: list[Any], actions: Any, features: Any) -> _Table:
    """Mean of the relevance tables of one name."""
    tables = [_table_of(source, actions, features) for source in given]
    if len({(*table.actions, "", *table.features) for table in tables}) > 1:
        raise ValueError(f"results of {name!r} have different actions or features: expected the same, to average them")
    explained = [table.explained for table in tables if table.explained is not None]
    return tables[0]._replace(
        shares=np.mean([table.shares for table in tables], axis=0),
        explained=np.mean(explained, axis=0) if len(explained) == len(tables) else None,
    )


def _table_of(source: Any, actions: Any = None, features: Any = None) -> _Table:
    found = _found_relevance(source)
    shares, explained = np.asarray(found, dtype=np.float64), getattr(found, "explained", None)
    if isinstance(source, Ledger):
        own_actions, own_features = range(shares.shape[0]), [f"x{index}" for index in range(shares.shape[1])]
    else:
        own_actions, own_features = source.actions, source.schema.names
    names = _names("actions", actions, own_actions), _names("features", features, own_features)
    return _Table(shares, *names, explained)


def relevance_of(source: Any) -> Array:
    """Relevance of each feature to each action (A × D) of a learner or a ledger."""
    return np.asarray(_found_relevance(source), dtype=np.float64)


def _found_relevance(source: Any) -> Any:
    found: Any = source.relevance if isinstance(source, Ledger) else None
    if isinstance(source, Policy) and source.traits.finds_relevance:
        found = source.relevance()
    if found is None:
        raise ValueError(
            f"{_kind(source)} has no relevance: expected a learner with a method relevance, or the ledger of its run"
        )
    return found


def _kind(source: Any) -> str:
    return "the ledger of a policy that" if isinstance(source, Ledger) else type(source).__name__


def _names(what: str, given: Any, own: Any) -> list[str]:
    names = [str(name) for name in (own if given is None else given)]
    if len(names) != len(own) or len(set(names)) < len(names):
        raise ValueError(f"{what} must be {len(own)} different names, got {given!r}")
    return names


def _heat_map(charts: Any, name: str, table: _Table, best: Mapping[str, float], highest: float, most: int) -> Any:
    """Heat map with features as rows, since their names are long, and actions as columns."""
    order = sorted(range(len(table.features)), key=lambda index: -best[table.features[index]])[:most]
    rows = [
        {
            "x": action,
            "y": table.features[index],
            "value": float(table.shares[row, index]),
            "strength": float(table.strengths[row, index]),
        }
        for index in order
        for row, action in enumerate(table.actions)
    ]
    totals = [] if table.explained is None else _totals(table.actions, table.explained)
    longest = max(len(action) for action in table.actions)
    wide, angle = max(MIN_TILE, LETTER * longest + 10), 0
    if wide > MIN_TILE and wide * len(table.actions) > charts.WIDTH:  # names don't fit side by side
        wide, angle = MIN_TILE, -40
    tiles = charts.heat(
        rows,
        None,
        None,
        highest=highest,
        written=len(rows) <= MAX_WRITTEN,
        darkness="value" if table.explained is None else "strength",
        totals=totals,
        orient="top",
        labelAngle=angle,
        labelLimit=200,
    )
    left_out = len(table.features) - len(order)
    cut = f"the {len(order)} most relevant of {len(table.features)} features" if left_out else ""
    title = {"title": ": ".join(part for part in (name, cut) if part)} if name or cut else {}
    return tiles.properties(
        width=wide * len(table.actions),
        height=(24 if len(order) <= 30 else 16) * (len(order) + bool(totals)),
        **title,
    )


def _totals(actions: list[str], explained: Array) -> list[dict[str, Any]]:
    """What all features explain of each action's reward, as rows of text."""
    texts = [f"{total:.1%}" if total > 0 else "none" for total in explained.sum(axis=1).tolist()]
    return [{"x": action, "y": OF_VARIANCE, "text": text} for action, text in zip(actions, texts, strict=True)]
