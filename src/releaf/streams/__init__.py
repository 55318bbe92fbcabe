"""Where contexts and rewards come from."""

from releaf.streams.breast_cancer import breast_cancer
from releaf.streams.stream import Stream

__all__ = ["Stream", "breast_cancer"]
