"""`LabelOutlook`: what further labels are expected to gain, and what they cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LabelOutlook:
    """What one more label is expected to gain, and whether a learner still asks for labels.

    Attributes
    ----------
    gain
        Expected gain of one more ordinary label, in units of the reward: the expected loss of not knowing, over as many
        decisions as each label has served so far. A mean over the latest 256 decisions, the later ones counting more.
    price
        What an ordinary label costs, in units of the reward (``observation_cost``); None without one.
    unworthy
        Number of latest decisions in a row whose label was not worth its price; None without a price.
    stop_asking_after
        So many of these stop the random checks; None if nothing does.
    has_stopped
        Whether the learner asks for nothing until a label is worth its price again.
    labels_left
        Labels that the budget still allows, in ordinary labels; None without one.
    """

    gain: float
    price: float | None
    unworthy: int | None
    stop_asking_after: int | None
    has_stopped: bool
    labels_left: float | None

    def __str__(self) -> str:
        gain = f"One more label is expected to gain {self.gain:.3g}"
        if self.price is None:
            return f"{gain}; {self.labels_left:,.12g} labels are left."
        parts = [f"{gain} on average, and costs {self.price:.3g}"]
        if self.unworthy:
            several = f"labels of the latest {self.unworthy:,} decisions were"
            latest = "label of the latest decision was" if self.unworthy == 1 else several
            parts.append(f"the {latest} not worth that")
        if self.has_stopped:
            parts.append("the learner asks for none until one is")
        if self.labels_left is not None:
            parts.append(f"{self.labels_left:,.12g} labels are left")
        return "; ".join(parts) + "."

    def to_dict(self) -> dict[str, Any]:
        """The attributes as plain data."""
        return asdict(self)
