"""Training from logs: row by row in one process, or in parallel on many cores or machines."""

from releaf.train.parallel_fit import fit_log
from releaf.train.sequential import Report, learn_file

__all__ = ["Report", "fit_log", "learn_file"]
