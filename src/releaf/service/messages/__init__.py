"""Request and response messages of the API, from which the OpenAPI description is generated.

Class names are the schema names in that description, and field names those on the wire: both are public.
"""

from releaf.service.messages.changes import ChangeInfo, ChangePage
from releaf.service.messages.decisions import (
    AllLearnt,
    Answer,
    Answers,
    Ask,
    Baseline,
    Learnt,
    Recorded,
    RecordedPage,
    Rewarding,
    RewardOf,
)
from releaf.service.messages.erasure import Erasure, ErasureProof
from releaf.service.messages.experiments import (
    AlertInfo,
    ControlInfo,
    Counts,
    ExperimentInfo,
    ExperimentList,
    NewAction,
    NewExperiment,
    NewShadow,
    PolicyInfo,
    PolicyList,
    PolicySpec,
    RetentionRules,
    RewardRules,
    ShadowInfo,
    SpendInfo,
)
from releaf.service.messages.explanations import (
    ExplanationInfo,
    IntervalInfo,
    IntervalRewards,
    PartitionInfo,
    RelevanceInfo,
    Try,
)
from releaf.service.messages.fields import Features
from releaf.service.messages.problems import ErrorAnswer, ErrorDetail, Health, LineError
from releaf.service.messages.time_series import (
    ActionPoint,
    ActionSummary,
    MarkerInfo,
    SeriesInfo,
    SeriesPoint,
    SummaryInfo,
)

__all__ = [
    "ActionPoint",
    "ActionSummary",
    "AlertInfo",
    "AllLearnt",
    "Answer",
    "Answers",
    "Ask",
    "Baseline",
    "ChangeInfo",
    "ChangePage",
    "ControlInfo",
    "Counts",
    "Erasure",
    "ErasureProof",
    "ErrorAnswer",
    "ErrorDetail",
    "ExperimentInfo",
    "ExperimentList",
    "ExplanationInfo",
    "Features",
    "Health",
    "IntervalInfo",
    "IntervalRewards",
    "Learnt",
    "LineError",
    "MarkerInfo",
    "NewAction",
    "NewExperiment",
    "NewShadow",
    "PartitionInfo",
    "PolicyInfo",
    "PolicyList",
    "PolicySpec",
    "Recorded",
    "RecordedPage",
    "RelevanceInfo",
    "RetentionRules",
    "RewardOf",
    "RewardRules",
    "Rewarding",
    "SeriesInfo",
    "SeriesPoint",
    "ShadowInfo",
    "SpendInfo",
    "SummaryInfo",
    "Try",
]
