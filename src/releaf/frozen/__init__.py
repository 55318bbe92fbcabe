"""Frozen policies: a policy at one moment as JSON, and evaluators that decide by it anywhere.

``evaluator.py`` needs the standard library only, ``javascript`` is a package for npm, and ``policy.schema.json``
describes the format.
"""

from pathlib import Path

from releaf.frozen.evaluator import (
    VERSION,
    FrozenDecision,
    FrozenPolicy,
    PolicyFileError,
    checksum,
    load_policy,
    read_policy,
)

__all__ = [
    "JAVASCRIPT",
    "JSON_SCHEMA",
    "VERSION",
    "FrozenDecision",
    "FrozenPolicy",
    "PolicyFileError",
    "checksum",
    "load_policy",
    "read_policy",
]

JAVASCRIPT = Path(__file__).parent / "javascript"  # the folder of the npm package
JSON_SCHEMA = Path(__file__).parent / "policy.schema.json"
