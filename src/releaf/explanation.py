"""`Explanation`: why a learner decided as it did, as text, as data, and as a chart."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from releaf.chart_import import import_charts
from releaf.decision import ActionName
from releaf.html_table import html_table

LISTED = 10  # actions in the text, those with the highest estimates, and the chosen one
SHOWN = 3  # terms of an action in the text, the largest
EVERYTHING_ELSE, SMALLER_TERMS = "everything else", "smaller terms"  # what other features add; terms not shown
LEAST_SHOWN = 0.002  # of the reward's range, for a term to be shown in the text


class Term(NamedTuple):
    """What some features add to the estimate of an action.

    A single feature has its main effect; several have what they do together beyond that. Without features it is
    everything else. ``where`` tells their values.
    """

    features: tuple[str, ...]
    effect: float
    where: str


class ActionExplanation(NamedTuple):
    """Estimate of an action, and what it consists of.

    ``low`` and ``high`` bound the expected reward in 95 % of contexts; None where a learner has no interval, and for
    actions that are not explained, of which there are some where there are more than 32.
    ``base_rate`` is the mean of the action's ``rewards``, those that the learner keeps, or what it expects before the
    first, or what ``base_rate_of`` says; the effects of the terms add up to the estimate less the base rate.
    ``unknown`` are the features with values outside of those for which the action was rewarded: the interval is then
    the whole range of rewards. ``eligible`` tells whether the decision could take the action. ``outside`` are such
    features as ``unknown``, but while others are certain to matter, these are not: the interval is as if they had no
    effect. ``cost`` is that of the action, None where costs do not matter, and ``weighted_cost`` what it
    counts for, in units of the reward.
    """

    action: ActionName
    estimate: float | None
    low: float | None
    high: float | None
    base_rate: float | None
    rewards: int
    terms: tuple[Term, ...]
    unknown: tuple[str, ...] = ()
    eligible: bool = True
    base_rate_of: str = ""
    outside: tuple[str, ...] = ()
    cost: float | None = None
    weighted_cost: float = 0.0

    @property
    def net(self) -> float:
        """Estimate less weighted cost, by which actions are compared."""
        return (self.estimate or 0.0) - self.weighted_cost


class Counterfactual(NamedTuple):
    """Smallest change of one input after which another eligible action has the highest estimate.

    ``feature`` is a column of the input, and ``value`` one that it can have: of the hour of a date, a date.
    """

    feature: str
    value: Any
    action: ActionName
    text: str


@dataclass(frozen=True)
class Explanation:
    """Why an action is chosen for a context. ``print`` shows its text.

    Attributes
    ----------
    action
        The chosen action.
    actions
        An explanation of each action's estimate, the highest (net of weighted cost) first; of more than 32 actions,
        the others have their estimate only.
    counterfactual
        Smallest change of one feature that would change the decision; None where no change of one feature does.
    headline, closing
        First and last line of the text.
    reward_range
        Lowest and highest possible reward.
    """

    action: ActionName
    actions: tuple[ActionExplanation, ...]
    headline: str
    closing: str
    counterfactual: Counterfactual | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)

    @property
    def text(self) -> str:
        """The explanation for people."""
        lines = [self.headline]
        listed = [*self.actions[:LISTED], *(known for known in self.actions[LISTED:] if known.action == self.action)]
        for known in listed:
            lines += self._lines_of(known)
        if len(listed) < len(self.actions):
            lines.append(f"  … and {len(self.actions) - len(listed)} more actions, estimated no higher")
        if self.counterfactual is not None:
            lines.append(self.counterfactual.text)
        return "\n".join([*lines, self.closing])

    def __str__(self) -> str:
        return self.text

    def __contains__(self, part: str) -> bool:
        return part in self.text

    def to_dict(self) -> dict[str, Any]:
        """The explanation for programs: names, strings and numbers, which JSON can hold."""
        found = self.counterfactual
        return {
            "action": self.action,
            "actions": [
                {
                    "action": known.action,
                    "estimate": known.estimate,
                    "low": known.low,
                    "high": known.high,
                    "base_rate": known.base_rate,
                    "rewards": known.rewards,
                    "explained": known.low is not None,
                    "terms": [
                        {"features": list(term.features), "effect": term.effect, "where": term.where}
                        for term in known.terms
                    ],
                    "unknown": list(known.unknown),
                    "eligible": known.eligible,
                    "outside": list(known.outside),
                    **({} if known.cost is None else {"cost": known.cost, "weighted_cost": known.weighted_cost}),
                }
                for known in self.actions
            ],
            "counterfactual": None
            if found is None
            else {"feature": found.feature, "value": _plain(found.value), "action": found.action, "text": found.text},
            "text": self.text,
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON."""
        return json.dumps(self.to_dict())

    def plot(self, action: ActionName | None = None) -> Any:
        """Draw a waterfall chart from the base rate of an action to its estimate.

        Parameters
        ----------
        action
            One of the actions; the chosen one when None.
        """
        charts = import_charts()
        name = self.action if action is None else action
        for known in self.actions:
            if known.action == name and known.estimate is not None and known.base_rate is not None:
                return charts.finished(
                    charts.waterfall(self._bars(known), [_estimate_line(self, known), *_notes(known)])
                )
        raise ValueError(f"{name!r} has no estimate that could be drawn: expected one of {self._drawable()}")

    def _repr_html_(self) -> str:
        """For notebooks: the text, with a row for each action."""
        span = self.reward_range[1] - self.reward_range[0]
        rows, shown = [], _number_format(span)
        for known in self.actions[:LISTED]:
            numbers = (known.estimate, known.low, known.high, known.base_rate)
            cells = ["" if number is None else shown(number, "") for number in numbers]
            terms = [f"{shown(term.effect, '+')} {_label(term)}" for term in _largest(known.terms, span)]
            name = known.action if known.eligible else f"{known.action} (not eligible)"
            rows.append([name, *cells, "; ".join(terms)])
        more = len(self.actions) - len(rows)
        notes = [f"… and {more} more actions, estimated no higher"] if more else []
        notes += [f"{known.action!r}: {note}" for known in self.actions[:LISTED] for note in _notes(known)]
        if self.counterfactual is not None:
            notes.append(self.counterfactual.text)
        head = ["action", "estimate", "95 % low", "95 % high", "base rate", "terms"]
        return html_table(head, rows, title=self.headline, notes=[*notes, self.closing])

    def _drawable(self) -> str:
        return ", ".join(repr(known.action) for known in self.actions if known.base_rate is not None) or "none"

    def _bars(self, known: ActionExplanation) -> list[dict[str, Any]]:
        reached = float(known.base_rate or 0.0)
        start = min(max(0.0, self.reward_range[0]), self.reward_range[1])
        bars = [{"name": "base rate", "from": start, "to": reached, "kind": "level"}]
        for term in known.terms:
            bars.append(
                {
                    "name": _label(term),
                    "from": reached,
                    "to": reached + term.effect,
                    "kind": "more" if term.effect >= 0 else "less",
                }
            )
            reached += term.effect
        return [*bars, {"name": "estimate", "from": start, "to": known.estimate, "kind": "level"}]

    def _lines_of(self, known: ActionExplanation) -> list[str]:
        if known.estimate is None:
            return [f"  {known.action!r}: no estimate{_unless_eligible(known)}"]
        low, high = self.reward_range
        shown = _number_format(high - low)
        lines = [f"  {_estimate_line(self, known)}"]
        rows = []
        if known.base_rate is not None and (known.rewards or known.base_rate_of):
            rows.append((shown(known.base_rate, ""), _base_rate_text(known)))
        rows += [(shown(term.effect, "+"), _label(term)) for term in _largest(known.terms, high - low)]
        width = max((len(amount) for amount, _ in rows), default=0)
        lines += [f"    {amount:>{width}}  {label}" for amount, label in rows]
        if known.cost is not None:
            weighted, net = shown(known.weighted_cost, ""), shown(known.net, "")
            lines.append(f"    its cost of {known.cost:g} counts for {weighted}, which leaves {net}")
        return [*lines, *(f"    {note}" for note in _notes(known))]


def _estimate_line(explanation: Explanation, known: ActionExplanation) -> str:
    low, high = explanation.reward_range
    shown = _number_format(high - low)
    estimate = shown(float(known.estimate or 0.0), "")
    if known.low is None or known.high is None:
        return f"{known.action!r}: {estimate}{_unless_eligible(known)}"
    bounds = f"95 % from {shown(known.low, '')} to {shown(known.high, '')}"
    return f"{known.action!r}: {estimate} ({bounds}){_unless_eligible(known)}"


def _notes(known: ActionExplanation) -> list[str]:
    """Why an interval is the whole range, or of which value it takes no account."""
    notes, where = [], "outside of all values with which it was rewarded"
    if known.unknown:
        notes.append(f"{' and '.join(known.unknown)}: {where}, so any reward is possible")
    if known.outside:
        notes.append(f"{' and '.join(known.outside)}: far {where}; no effect is known, none is in the interval")
    return notes


def _unless_eligible(known: ActionExplanation) -> str:
    return "" if known.eligible else ", not eligible"


def _base_rate_text(known: ActionExplanation) -> str:
    if known.base_rate_of:
        return f"base rate: {known.base_rate_of}"
    return "its only reward" if known.rewards == 1 else f"base rate: mean of its {known.rewards:,} rewards"


def _plain(value: Any) -> Any:
    """A value that JSON can hold: a date as ISO text."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _label(term: Term) -> str:
    if not term.features:
        return term.where or EVERYTHING_ELSE
    return term.where + (" together" if len(term.features) > 1 else "")


def _largest(terms: tuple[Term, ...], span: float) -> list[Term]:
    """The largest terms, and what is left of the others as one, so that what is shown adds up."""
    named = [term for term in terms if term.features]
    least = LEAST_SHOWN * span
    shown = [term for term in named[:SHOWN] if abs(term.effect) >= least]
    rest = sum(term.effect for term in terms) - sum(term.effect for term in shown)
    where = _where_of_rest(terms, named, len(shown))
    return shown if abs(rest) < least else [*shown, Term((), rest, where)]


def _where_of_rest(terms: tuple[Term, ...], named: list[Term], shown: int) -> str:
    if not named:
        return terms[0].where if terms else ""
    smaller = [SMALLER_TERMS] if shown < len(named) else []
    others = [EVERYTHING_ELSE] if len(named) < len(terms) or not smaller else []
    return ", and ".join([*smaller, *others])


def _number_format(span: float) -> Any:
    """Format of numbers of a range: three digits after the first of the range."""
    if not 1e-6 < span < 1e6:
        return lambda value, sign: f"{value:{sign}.4g}"
    digits = max(0, 3 - math.floor(math.log10(span)))
    return lambda value, sign: f"{value:{sign}.{digits}f}"
