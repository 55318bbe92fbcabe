"""The ranking in the answer to Rank."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from releaf.service.personalizer.messages import RankedAction


def make_ranking(
    ids: Sequence[str],
    excluded: Collection[str],
    chosen: str,
    estimates: Mapping[str, float],
    probabilities: Mapping[str, float],
) -> list[RankedAction]:
    """Rank actions: the chosen one first, then the others by their estimates; excluded ones keep their places.

    Parameters
    ----------
    ids
        All actions of the request, in its order, which decides between equal estimates.
    excluded
        Those that could not be chosen.
    chosen
        The action of the decision.
    estimates, probabilities
        Of the eligible actions; those without an estimate come last.
    """
    others = [name for name in ids if name not in excluded and name != chosen]
    others.sort(key=lambda name: estimates.get(name, float("-inf")), reverse=True)
    ranked = iter([chosen, *others])
    names = [name if name in excluded else next(ranked) for name in ids]
    return [RankedAction(name, 0.0 if name in excluded else probabilities[name]) for name in names]
