"""`RelevanceTable`: the relevance of each feature to each action, with their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.html_table import html_table

MAX_WIDTH = 100  # characters of a line, beyond which a line lists an action's most relevant features
MAX_LINES = 30  # actions that are printed
MAX_LISTED = 5  # features of an action that such a line lists


class RelevanceTable(np.ndarray[Any, np.dtype[np.float64]]):
    """An array (actions × features) that knows the names of its rows and columns.

    It is a NumPy array: whatever takes one takes it, and parts and results of it are plain arrays. Texts in brackets
    are names, whole numbers are positions.

    Parameters
    ----------
    shares
        The relevance (A × D).
    actions, features
        Names of the rows and of the columns.
    explained
        Share of the variance of each action's reward that each feature explains (A × D), if the learner knows it. Rows
        of relevance sum to 1, however little a feature explains; this tells how much. 0 where it is not certain that a
        feature matters.
    certainties
        Certainty that a feature matters to an action (A × D), if the learner knows it: 1 less the p-value of the
        hypothesis that it does not, which is not the probability that it does.

    Examples
    --------
    >>> table = RelevanceTable([[0.25, 0.75], [1.0, 0.0]], ["wait", "treat"], ["age", "dose"])
    >>> table
           age dose
    wait  0.25 0.75
    treat 1.00 0.00
    >>> float(table["treat", "age"]), table[:, "dose"].tolist(), table[0].tolist()
    (1.0, [0.75, 0.0], [0.25, 0.75])
    """

    actions: tuple[ActionName, ...] | None
    features: tuple[str, ...] | None
    explained: Array | None
    certainties: Array | None

    def __new__(
        cls,
        shares: Any,
        actions: Sequence[ActionName],
        features: Sequence[str],
        explained: Any = None,
        certainties: Any = None,
    ) -> RelevanceTable:
        table = np.array(shares, dtype=np.float64).view(cls)
        if table.shape != (len(actions), len(features)):
            raise ValueError(
                f"shares have shape {table.shape}: expected {len(actions)} actions × {len(features)} features"
            )
        for name, values in (("explained", explained), ("certainties", certainties)):
            array = None if values is None else np.array(values, dtype=np.float64)
            if array is not None and array.shape != table.shape:
                raise ValueError(f"{name} has shape {array.shape}: expected that of the shares, {table.shape}")
            setattr(table, name, array)
        table.actions, table.features = tuple(actions), tuple(features)
        return table

    def __array_finalize__(self, source: Any) -> None:
        self.actions = self.features = self.explained = self.certainties = None  # of a part or a transpose

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Results of functions are plain arrays: no shares any more."""
        plain = np.asarray(array)
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    def __copy__(self) -> Any:
        if self.actions is None or self.features is None:
            return np.array(self)
        return RelevanceTable(self, self.actions, self.features, self.explained, self.certainties)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        if self.actions is None or self.features is None:
            return np.asarray(self).__reduce__()
        return RelevanceTable, (np.asarray(self), self.actions, self.features, self.explained, self.certainties)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            index = self._position("action", index, self.actions)
        elif isinstance(index, tuple) and any(isinstance(part, str) for part in index):
            names = (("action", self.actions), ("feature", self.features))
            pairs = zip(index, names, strict=False)
            index = tuple(self._position(k, part, n) if isinstance(part, str) else part for part, (k, n) in pairs)
        return np.asarray(self)[index]

    @staticmethod
    def _position(kind: str, name: str, names: tuple[Any, ...] | None) -> int:
        if names is None or name not in names:
            raise KeyError(f"unknown {kind} {name!r}: the {kind}s are {', '.join(map(str, names or ()))}")
        return names.index(name)

    def to_dict(self) -> dict[ActionName, dict[str, float]]:
        """Shares by action and feature."""
        actions, features = self._names()
        rows = zip(actions, self.tolist(), strict=True)
        return {action: dict(zip(features, row, strict=True)) for action, row in rows}

    def to_frame(self, backend: Literal["pyarrow", "polars", "pandas"] = "pyarrow") -> Any:
        """A table with a row for each action, whose name is in the first column, "action".

        Parameters
        ----------
        backend
            Which kind: "pyarrow", "polars" or "pandas", which must be installed.
        """
        import narwhals.stable.v2 as nw  # imported lazily, as all packages of tables

        actions, features = self._names()
        if "action" in features:
            raise ValueError("a feature is named 'action', as the column of actions: use to_dict or to_pandas")
        kinds = {type(action) for action in actions}
        named = list(actions) if len(kinds) == 1 else list(map(str, actions))  # a column has one type
        columns = {"action": named, **{name: np.asarray(self)[:, place] for place, name in enumerate(features)}}
        return nw.from_dict(columns, backend=backend).to_native()

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the actions as its index and the features as its columns."""
        import narwhals.stable.v2 as nw

        actions, features = self._names()
        frame = nw.from_dict(
            {name: np.asarray(self)[:, place] for place, name in enumerate(features)}, backend="pandas"
        ).to_native()
        return frame.set_axis(list(actions), axis=0)

    def _names(self) -> tuple[tuple[ActionName, ...], tuple[str, ...]]:
        if self.actions is None or self.features is None:
            raise ValueError("a part of a relevance table has no names: expected the whole table")
        return self.actions, self.features

    def __str__(self) -> str:
        if self.actions is None or self.features is None:
            return str(np.asarray(self))
        rows = [str(action) for action in self.actions]
        first = max(map(len, rows))
        widths = [max(len(name), 4) for name in self.features]
        if first + sum(width + 1 for width in widths) > MAX_WIDTH:
            return self._as_lists(rows, self.features)
        head = " " * first + "".join(f" {name:>{width}}" for name, width in zip(self.features, widths, strict=True))
        lines = [
            f"{row:<{first}}"
            + "".join(f" {share:{width}.2f}" for share, width in zip(shares, widths, strict=True))
            + self._how_much(place)
            for place, (row, shares) in enumerate(zip(rows[:MAX_LINES], self.tolist(), strict=False))
        ]
        return "\n".join([head, *lines, *self._rest()])

    def _how_much(self, row: int) -> str:
        """What all features explain of an action's reward, in words."""
        if self.explained is None:
            return ""
        total = float(self.explained[row].sum())
        return f"  {total:.2%} of the variance" if total > 0 else "  no feature is certain to matter"

    def _as_lists(self, rows: list[str], features: tuple[str, ...]) -> str:
        """A line for each action with its most relevant features, for a table that is too wide."""
        lines: list[str] = []
        for row, shares in zip(rows[:MAX_LINES], np.asarray(self), strict=False):
            order = np.argsort(-shares, kind="stable")[:MAX_LISTED]
            named = ", ".join(f"{features[place]} {shares[place]:.2f}" for place in order if shares[place] > 0)
            lines.append(f"{row}: {named or 'none yet'} (of {len(features)} features){self._how_much(len(lines))}")
        return "\n".join([*lines, *self._rest()])

    def _rest(self) -> list[str]:
        return [f"… and {len(self) - MAX_LINES:,} more actions"] if len(self) > MAX_LINES else []

    def __repr__(self) -> str:
        return repr(np.asarray(self)) if self.actions is None else str(self)

    def _repr_html_(self) -> str | None:
        """For notebooks."""
        if self.actions is None or self.features is None:
            return None
        shares = ([f"{share:.2f}" for share in row] for row in self.tolist())
        totals = [[]] * len(self) if self.explained is None else [[f"{row.sum():.2%}"] for row in self.explained]
        rows = ([action, *row, *total] for action, row, total in zip(self.actions, shares, totals, strict=True))
        return html_table(["", *self.features, *(["of the variance"] if self.explained is not None else [])], rows)
