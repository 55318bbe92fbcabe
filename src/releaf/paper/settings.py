"""The settings of the rivals in the paper's experiments on labelled data."""

from __future__ import annotations

from typing import Any

# What the paper calls each method, the policy, and what it is made with beside the defaults.
RIVALS: dict[str, tuple[str, dict[str, Any]]] = {
    "AM": ("AverageMajority", {}),
    "Adaboost": ("AdaBoost", {}),
    "Online Adaboost": ("OnlineAdaBoost", {}),
    "Blum": ("Blum", {}),
    "CZ": ("ContextualZooming", {}),
    "Hybrid-ε": ("HybridEpsilon", {}),
    "LinUCB": ("LinUCB", {}),
}
# What it names in its draft, or what a reader would look for; and the variants that come near the paper's figures.
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
VOTING = ("AverageMajority", "AdaBoost", "OnlineAdaBoost", "Blum", "WeightedMajority", "FixedShare")
VARIANTS = {"RELEAF": "explored", "RELEAF-ALL": "always", "RELEAF-FO": "all-actions"}
SAMPLE = 1_500
