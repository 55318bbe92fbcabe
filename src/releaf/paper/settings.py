"""The settings of RELEAF and of the baselines in the paper's experiments on labelled data."""

from __future__ import annotations

from typing import Any

# One setting serves all three data sets. The paper prints the divisor only; the others give its numbers of labels.
RELEAF: dict[str, Any] = {"lipschitz": 1.0, "rho": None, "delta": 0.01, "control_divisor": 5000}
SETTINGS_TEXT = "L = 1, ρ = ρ* = 2+2√2, δ = 0.01, control numbers divided by 5000"
PAIRS_TEXT = "In the rows γ_rel = 2, ρ is ρ*(2) = 6.87."
VARIANTS = {"RELEAF": "explored", "RELEAF-ALL": "always", "RELEAF-FO": "all-actions"}

# What the paper calls each baseline, the policy, and its arguments other than the defaults.
BASELINES: dict[str, tuple[str, dict[str, Any]]] = {
    "AM": ("AverageMajority", {}),
    "Adaboost": ("AdaBoost", {}),
    "Online Adaboost": ("OnlineAdaBoost", {}),
    "Blum": ("Blum", {}),
    "CZ": ("ContextualZooming", {}),
    "Hybrid-ε": ("HybridEpsilon", {}),
    "LinUCB": ("LinUCB", {}),
}
# What the paper names in its draft, or what a reader would look for; and the variants that come near its figures.
FURTHER: dict[str, tuple[str, dict[str, Any]]] = {
    "Hybrid-ε, constant ε = 0.1": ("HybridEpsilon", {"epsilon": 0.1}),
    "LinUCB, no constant feature": ("LinUCB", {"intercept": False}),
    "WM": ("WeightedMajority", {}),
    "TrackExp": ("FixedShare", {}),
    "LinTS": ("LinTS", {}),
    "CMAB-RL": ("CMABRL", {}),
    "UCB1": ("UCB1", {}),
    "Random": ("Random", {}),
}
# RELEAF with two relevant features for each action, whose cells are of 2γ or of γ + 1 features.
PAIRS: dict[str, dict[str, Any]] = {
    "RELEAF, γ_rel = 2": {"gamma_rel": 2},
    "RELEAF, γ_rel = 2, γ+1-tuples": {"gamma_rel": 2, "tuples": "gamma+1"},
}
ENSEMBLES = ("AverageMajority", "AdaBoost", "OnlineAdaBoost", "Blum", "WeightedMajority", "FixedShare")
SAMPLE = 1_500


def vote_arguments(policy: str, training: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
    """The base classifiers of an ensemble, and the sample that AdaBoost's weights are made with; none for others."""
    if policy not in ENSEMBLES:
        return {}
    return {"experts": training} | ({"sample": {**sample, "size": SAMPLE}} if policy == "AdaBoost" else {})


def releaf_arguments(observe: str = "explored", **further: Any) -> dict[str, Any]:
    """The arguments of RELEAF in an experiment on labelled data."""
    return {**RELEAF, "observe": observe, **further}
