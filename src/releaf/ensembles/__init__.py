"""The paper's ensembles of pretrained base classifiers. Importing this package registers them for ``load``."""

from releaf.ensembles.adaboost import AdaBoost, OnlineAdaBoost
from releaf.ensembles.experts import Experts, train_experts
from releaf.ensembles.majority import AverageMajority
from releaf.ensembles.weighted import Blum, FixedShare, WeightedMajority
from releaf.policies import from_bytes, load

__all__ = [
    "AdaBoost",
    "AverageMajority",
    "Blum",
    "Experts",
    "FixedShare",
    "OnlineAdaBoost",
    "WeightedMajority",
    "from_bytes",
    "load",
    "train_experts",
]
