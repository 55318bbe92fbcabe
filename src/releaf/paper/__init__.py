"""The paper's experiments, each a short declaration of what to run and what to show."""

from releaf.paper.balance import Balance
from releaf.paper.bounds import Bounds
from releaf.paper.breast_cancer import BreastCancer
from releaf.paper.dimension import RegretAndDimension
from releaf.paper.experiment import Experiment, Results
from releaf.paper.guarantee import TheoremOne
from releaf.paper.intrusion import Intrusion
from releaf.paper.lipschitz import Lipschitz
from releaf.paper.price import Price
from releaf.paper.recovery import RelevanceRecovery
from releaf.paper.relevance import RelevanceOfFeatures
from releaf.paper.synthetic import Lemma1, Synthetic
from releaf.paper.webpages import Webpages
from releaf.report.figures import Figures, Line, Picture

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(BreastCancer(), Intrusion(), Lipschitz(), Webpages(), Synthetic(), Lemma1(), RelevanceOfFeatures()),
        *(RelevanceRecovery(), Bounds(), RegretAndDimension(), TheoremOne(), Balance(), Price()),
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Figures", "Line", "Picture", "Results"]
