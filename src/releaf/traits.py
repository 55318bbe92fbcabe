"""`Traits`: properties and capabilities of a policy class."""

from __future__ import annotations

from typing import NamedTuple


class Traits(NamedTuple):
    """Properties of a policy, as in the paper's table, and the optional methods that it supports.

    Capabilities follow from the optional methods that a class overrides, and from its constructor. An optional method
    of a policy that does not support it raises a TypeError. Ask its traits first:
    ``if policy.traits.explains: policy.explain(decision)``.
    """

    name: str  # as in the literature
    source: str
    base_classifiers: bool = False  # needs pretrained ones
    prior_training: bool = False  # of its own weights, or of the base classifiers
    learns_online: bool = True
    learns_actively: bool = False  # requests some rewards only
    uses_context: bool = True
    finds_relevance: bool = False  # relevance
    observes: str = "the reward of its action, always"
    learns_from_logs: bool = True  # observe, learn_log, and learn with the action taken instead
    mergeable: bool = False  # merge
    explains: bool = False  # explain
    has_intervals: bool = False  # partition, interval_rewards
    has_effects: bool = False  # effect
    has_reward_range: bool = False  # a parameter reward_range, as all policies of the package
    exportable: bool = False  # export
    takes_action_features: bool = False  # actions with features of their own, and slates: decide(…, k=, actions=)
