"""All that decides. Importing this package makes every policy known to ``load``."""

from releaf.policies.base import OnlinePolicy, load
from releaf.policies.greedy import GreedyReleaf
from releaf.policies.releaf import Releaf

__all__ = ["GreedyReleaf", "OnlinePolicy", "Releaf", "load"]
