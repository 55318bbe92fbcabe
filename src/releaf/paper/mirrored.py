"""The paper's streams with every feature x as 1 - x.

RELEAF's intervals are (a, b]; on a mirrored stream they hold what intervals [a, b) would on the stream itself.
"""

from __future__ import annotations

from dataclasses import replace

from releaf import streams


def breast_cancer(steps: int = 50_000, seed: int = 0) -> streams.Stream:
    """:func:`releaf.streams.breast_cancer` with every feature mirrored."""
    stream = streams.breast_cancer(steps, seed)
    return replace(stream, contexts=1.0 - stream.contexts)
