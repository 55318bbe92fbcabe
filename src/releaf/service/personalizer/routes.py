"""Routes of Personalizer's API. The base address of a client is that of an experiment."""

from __future__ import annotations

from releaf.service.http.operation import Operation
from releaf.service.personalizer import handlers
from releaf.service.personalizer.error_format import PERSONALIZER_ERRORS
from releaf.service.personalizer.messages import RankRequest, RewardRequest

_BASE = "/v1/experiments/{experiment}/personalizer/{version}"
_EVENT = f"{_BASE}/events/{{event:path}}"

# fmt: off
PERSONALIZER_OPERATIONS = (
    Operation("POST", f"{_BASE}/rank", handlers.rank, "Personalizer's Rank: choose among the actions of the request",
              body=RankRequest, scope="decide", status=201, error_format=PERSONALIZER_ERRORS),
    Operation("POST", f"{_EVENT}/reward", handlers.reward_event, "Personalizer's Reward: learn the reward of an event",
              body=RewardRequest, scope="reward", status=204, error_format=PERSONALIZER_ERRORS),
    Operation("POST", f"{_EVENT}/activate", handlers.activate_event,
              "Personalizer's Activate: a deferred event was used, and its reward counts",
              scope="reward", status=204, error_format=PERSONALIZER_ERRORS),
)
