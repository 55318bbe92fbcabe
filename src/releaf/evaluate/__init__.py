"""Run policies over streams, and account for what they earn and cost."""

from releaf.evaluate.grids import grid, table
from releaf.evaluate.ledger import Ledger, account, run
from releaf.evaluate.offpolicy import Estimate, choices, doubly_robust, effective_rows, halves, ips, rejection, snips
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
