"""Routes of Personalizer's API. The base address of a client is that of an experiment."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor

from releaf.service.http.operation import Operation
from releaf.service.personalizer import handlers, slot_handlers
from releaf.service.personalizer.error_format import PERSONALIZER_ERRORS
from releaf.service.personalizer.messages import (
    MultiSlotRankRequest,
    MultiSlotRewardRequest,
    RankRequest,
    RewardRequest,
)


class AnyText(PathConvertor):
    """A part of a path that may have slashes and line breaks, so that errors about it are those of this API."""

    regex = r"[\s\S]+"


register_url_convertor("any", AnyText())
_BASE = "/v1/experiments/{experiment}/personalizer/{version}"
_EVENT = f"{_BASE}/events/{{event:any}}"
_SLOTS = f"{_BASE}/multislot"

# fmt: off
PERSONALIZER_OPERATIONS = (
    Operation("POST", f"{_BASE}/rank", handlers.rank, "Personalizer's Rank: choose among the actions of the request",
              body=RankRequest, scope="decide", status=201, error_format=PERSONALIZER_ERRORS),
    Operation("POST", f"{_EVENT}/reward", handlers.reward_event, "Personalizer's Reward: learn the reward of an event",
              body=RewardRequest, scope="reward", status=204, error_format=PERSONALIZER_ERRORS),
    Operation("POST", f"{_EVENT}/activate", handlers.activate_event,
              "Personalizer's Activate: a deferred event was used, and its reward counts",
              scope="reward", status=204, error_format=PERSONALIZER_ERRORS),
    Operation("POST", f"{_SLOTS}/rank", slot_handlers.rank_slots,
              "Personalizer's multi-slot Rank: choose another action for each slot",
              body=MultiSlotRankRequest, scope="decide", status=201, error_format=PERSONALIZER_ERRORS),
    Operation("POST", f"{_SLOTS}/events/{{event:any}}/reward", slot_handlers.reward_slots,
              "Personalizer's multi-slot Reward: learn the rewards of slots",
              body=MultiSlotRewardRequest, scope="reward", status=204, error_format=PERSONALIZER_ERRORS),
    Operation("POST", f"{_SLOTS}/events/{{event:any}}/activate", slot_handlers.activate_slots,
              "Personalizer's multi-slot Activate: all slots of a deferred event were used",
              scope="reward", status=204, error_format=PERSONALIZER_ERRORS),
)
