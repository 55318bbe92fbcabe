"""Policies, one class per file. Importing this package registers every policy for ``load``."""

from releaf.policies.adaptive import AdaptiveReleaf
from releaf.policies.apprentice import Apprentice
from releaf.policies.base import OnlinePolicy
from releaf.policies.cmab_rl import CMABRL
from releaf.policies.epsilon_greedy import EpsilonGreedy
from releaf.policies.greedy import GreedyReleaf
from releaf.policies.hybrid import HybridEpsilon
from releaf.policies.hybrid_linucb import HybridLinUCB
from releaf.policies.joint import JointReleaf
from releaf.policies.linear_epsilon import LinearEpsilonGreedy
from releaf.policies.lints import LinTS
from releaf.policies.linucb import LinUCB
from releaf.policies.random import Random
from releaf.policies.releaf import Releaf
from releaf.policies.serialization import from_bytes, load
from releaf.policies.ucb1 import UCB1
from releaf.policies.zooming import ContextualZooming

__all__ = [
    "CMABRL",
    "UCB1",
    "AdaptiveReleaf",
    "Apprentice",
    "ContextualZooming",
    "EpsilonGreedy",
    "GreedyReleaf",
    "HybridEpsilon",
    "HybridLinUCB",
    "JointReleaf",
    "LinTS",
    "LinUCB",
    "LinearEpsilonGreedy",
    "OnlinePolicy",
    "Random",
    "Releaf",
    "from_bytes",
    "load",
]
