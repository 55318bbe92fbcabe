"""Learning from logs: one after the other on this machine, or many parts at once on many."""

from releaf.train.fit import fit_log
from releaf.train.stream import Report, learn_file

__all__ = ["Report", "fit_log", "learn_file"]
