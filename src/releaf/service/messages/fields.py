"""Types of the fields of messages, with their limits."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z", description="Letters, digits, _ . and -")]
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # fits MessagePack, the format of the log
Value = None | bool | Whole | float | str
# Not . and .., which programs remove from URLs: DELETE …/actions/.. would become DELETE …
RequestAction = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^(?!\.{1,2}\Z)")] | Whole
Context = list[Value] | dict[str, Value]
Options = dict[str, Value | list[Value]]
Parameters = dict[str, Value | list[Value] | dict[str, float]]
Eligible = Annotated[list[RequestAction | list[RequestAction] | None], Meta(min_length=1)]
Key = Annotated[str, Meta(min_length=1, max_length=200, description="The same key gives the same decision again")]
Subject = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Whom the decision is about, such as a customer's number, so that it can be erased; kept as a hash",
    ),
]
Costs = dict[str, float] | list[float]  # of each action, by name or in the order of the actions
LabelCost = Annotated[float, Meta(gt=0, description="What the reward costs to find out, in ordinary labels")]
Receipt = Annotated[str, Meta(max_length=100, description="Of the decision's answer, if rewards are signed")]
Number = Annotated[int, Meta(ge=1, le=2**53)]
Reward = float | list[float] | dict[str, float]
# Text as names of actions, since they are keys of JSON; null keeps the features that an action has.
RequestedActions = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^(?!\.{1,2}\Z)")], Context | None],
    Meta(min_length=1, max_length=10_000),
]
Features = Annotated[int, Meta(ge=1, le=2_000)] | Annotated[list[Text | Options], Meta(min_length=1, max_length=2_000)]


class RequestMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """Base of request messages. Unknown fields are rejected, because most are misspelt ones."""
