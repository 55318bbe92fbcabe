"""Properties of a policy, as in the paper's table."""

from __future__ import annotations

from typing import NamedTuple


class Traits(NamedTuple):
    """One row of the table that compares all policies."""

    name: str  # as in the literature
    source: str
    base_classifiers: bool = False  # needs pretrained ones
    prior_training: bool = False  # of its own weights, or of the base classifiers
    learns_online: bool = True
    learns_actively: bool = False  # requests some rewards only
    uses_context: bool = True
    finds_relevance: bool = False
    observes: str = "the reward of its action, always"
