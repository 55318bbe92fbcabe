"""Evaluation of policies: runs over streams, off-policy estimates, parameter grids and sweeps."""

from releaf.evaluate.control_groups import lift
from releaf.evaluate.estimators import (
    Estimate,
    SupportWarning,
    direct_method,
    doubly_robust,
    effective_rows,
    estimate_all,
    importance_weights,
    ips,
    sndr,
    snips,
    switch_dr,
)
from releaf.evaluate.ledger import Ledger, account, run
from releaf.evaluate.off_policy import choices, halves, rejection, sample_log
from releaf.evaluate.overlap import Overlap, overlap
from releaf.evaluate.parameter_grid import grid, table
from releaf.evaluate.propensities import CalibrationBin, Propensities, estimate_propensities
from releaf.evaluate.reward_models import cross_fit_rewards
from releaf.evaluate.runs import Run, execute
from releaf.evaluate.sensitivity import SensitivityBound, breakdown, sensitivity
from releaf.evaluate.store import Store
from releaf.evaluate.sweeps import sweep

__all__ = [
    "CalibrationBin",
    "Estimate",
    "Ledger",
    "Overlap",
    "Propensities",
    "Run",
    "SensitivityBound",
    "Store",
    "SupportWarning",
    "account",
    "breakdown",
    "choices",
    "cross_fit_rewards",
    "direct_method",
    "doubly_robust",
    "effective_rows",
    "estimate_all",
    "estimate_propensities",
    "execute",
    "grid",
    "halves",
    "importance_weights",
    "ips",
    "lift",
    "overlap",
    "rejection",
    "run",
    "sample_log",
    "sensitivity",
    "sndr",
    "snips",
    "sweep",
    "switch_dr",
    "table",
]
