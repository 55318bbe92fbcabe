"""The paper's experiments, each a short declaration of what to run and what to show."""

from releaf.paper.bounds import Bounds
from releaf.paper.breast_cancer import BreastCancer
from releaf.paper.experiment import Experiment, Figures, Line, Picture, Results
from releaf.paper.intrusion import Intrusion
from releaf.paper.recovery import RelevanceRecovery
from releaf.paper.relevance import Relevance
from releaf.paper.synthetic import Lemma1, Synthetic
from releaf.paper.webpages import Webpages

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(BreastCancer(), Intrusion(), Webpages(), Synthetic(), Lemma1(), Relevance(), Bounds()),
        RelevanceRecovery(),
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Figures", "Line", "Picture", "Results"]
