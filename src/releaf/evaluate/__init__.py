"""Evaluation of policies: runs over streams, off-policy estimates, parameter grids and sweeps."""

from releaf.evaluate.ledger import Ledger, account, run
from releaf.evaluate.off_policy import Estimate, choices, doubly_robust, effective_rows, halves, ips, rejection, snips
from releaf.evaluate.parameter_grid import grid, table
from releaf.evaluate.runs import Run, execute
from releaf.evaluate.store import Store
from releaf.evaluate.sweeps import sweep

__all__ = [
    "Estimate",
    "Ledger",
    "Run",
    "Store",
    "account",
    "choices",
    "doubly_robust",
    "effective_rows",
    "execute",
    "grid",
    "halves",
    "ips",
    "rejection",
    "run",
    "snips",
    "sweep",
    "table",
]
