"""Tables that notebooks show of policies, decisions, explanations and ledgers."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import releaf
from releaf.html_table import html_table

ACTIONS = ["<script>alert(1)</script>", "a & b"]


@pytest.fixture(scope="module")
def bandit() -> releaf.AdaptiveReleaf:
    learner = releaf.AdaptiveReleaf(ACTIONS, ["<age>", "dose"], seed=0)
    contexts = np.random.default_rng(0).random((300, 2))
    learner.replay(contexts, np.column_stack([contexts[:, 0] > 0.5, contexts[:, 0] <= 0.5]).astype(float))
    return learner


def cells(shown: Any) -> list[list[str]]:
    """Text of all cells, read by a parser that refuses what is not escaped or closed."""
    tree = ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")
    assert tree.find(".//script") is None
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


def test_cells_titles_and_notes_are_escaped() -> None:
    made = html_table(["<i>"], [["&"]], title="<b>", notes=["</p>"])
    assert "<i>" not in made
    tree = ElementTree.fromstring(f"<div>{made}</div>")
    assert ["".join(line.itertext()) for line in tree.iter("p")] == ["<b>", "</p>"]


def test_a_policy_shows_what_it_has_done(bandit: releaf.AdaptiveReleaf) -> None:
    head, row = cells(bandit)
    assert dict(zip(head, row, strict=True))["decisions"] == "300"


def test_a_decision_shows_the_estimates_of_all_actions(bandit: releaf.AdaptiveReleaf) -> None:
    choice = bandit.preview([0.9, 0.5])
    rows = {row[0]: row[1:] for row in cells(choice)[1:]}
    assert list(rows) == ACTIONS
    assert [bool(mark) for _, mark in rows.values()] == [place == choice.index for place in range(2)]
    assert choice.estimates is not None
    assert [float(estimate) for estimate, _ in rows.values()] == pytest.approx(choice.estimates, rel=1e-3)


def test_an_exploration_without_estimates_has_empty_cells() -> None:
    explored = releaf.Random(ACTIONS, 1, seed=0).decide([0.5])
    assert explored.estimates is None
    assert [row[1] for row in cells(explored)[1:]] == ["", ""]


def test_a_batch_shows_its_first_decisions() -> None:
    batch = releaf.LinUCB(2, 2, seed=0).decide_many(np.random.default_rng(1).random((25, 2)))
    assert len(cells(batch)) == 1 + 10
    assert "15 more decisions" in batch._repr_html_()


def test_an_explanation_shows_each_action_with_its_terms(bandit: releaf.AdaptiveReleaf) -> None:
    why = bandit.explain([0.9, 0.5])
    head, *rows = cells(why)
    assert head[:4] == ["action", "estimate", "95 % low", "95 % high"]
    assert [row[0] for row in rows] == [known.action for known in why.actions]
    assert any("<age>" in row[-1] for row in rows)


def test_a_ledger_shows_its_totals() -> None:
    ledger = releaf.evaluate.run(releaf.UCB1(2, 2, seed=0), releaf.streams.generate(200, features=2, actions=2, seed=0))
    head, row = cells(ledger)
    totals = dict(zip(head, row, strict=True))
    assert totals["steps"] == "200"
    assert float(totals["regret"]) == pytest.approx(ledger.regret, rel=1e-3)
