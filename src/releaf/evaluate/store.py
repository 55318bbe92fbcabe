"""Finished runs, kept one file each, so that none is done twice and a stop loses only what was in flight."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from releaf._version import __version__
from releaf.evaluate.ledger import Ledger
from releaf.evaluate.runs import Run

_DIGEST = b"releaf-sha256"
_NESTED = ("reward_interval", "relevance", "partition", "guarantee", "curves", "checkpoints")


class Store:
    """A folder of Parquet files, one for each finished run, named by what the run is.

    Parameters
    ----------
    folder
        Made when the first run is kept.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"

    def get(self, run: Run, key: str | None = None) -> Ledger | None:
        """What a run gave; None when it is not finished. A damaged file is as good as none.

        Parameters
        ----------
        run
            What was done.
        key
            The run's key, where it is known.
        """
        path = self._path(key or run.key)
        if not path.is_file():
            return None
        from pyarrow import parquet

        try:
            kept = parquet.read_table(path)
            (row,) = kept.to_pylist()
            if kept.schema.metadata[_DIGEST] != _digest(row):
                return None
            fields = {name: row[name] for name in Ledger.__dataclass_fields__ if name not in _NESTED}
            return Ledger(**fields, **{name: json.loads(row[name]) for name in _NESTED})
        except Exception:  # whatever the damage makes of a file, it is not known to hold the run
            return None

    def put(self, run: Run, ledger: Ledger, key: str | None = None) -> None:
        """Keep what a run gave, whole or not at all.

        Parameters
        ----------
        run, ledger
            What was done, and what it gave.
        key
            The run's key when it was done, where it is known: files that it names may have changed since.
        """
        import pyarrow
        from pyarrow import parquet

        row = ledger.to_dict()
        row |= {name: json.dumps(row[name]) for name in _NESTED}
        row |= {"version": __version__, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        row |= {"seed_of_run": run.seed, "policy": run.policy, "run": json.dumps(run.to_dict())}
        table = pyarrow.Table.from_pylist([row])
        table = table.replace_schema_metadata({_DIGEST: _digest(*table.to_pylist())})
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                parquet.write_table(table, file)
                file.flush()
                os.fsync(handle)  # a name without its content would be all that a power cut leaves
            os.replace(temporary, self._path(key or run.key))
        finally:
            Path(temporary).unlink(missing_ok=True)


def _digest(row: dict[str, Any]) -> bytes:
    """Of all values, since Parquet notices few of the bits that a disk may flip."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest().encode()
