"""`Store`: finished runs on disk, one file each, so that a sweep can resume."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from releaf._version import __version__
from releaf.atomic_file import replace_file
from releaf.evaluate.ledger import NESTED_FIELDS, Ledger
from releaf.evaluate.runs import Run

_DIGEST = b"releaf-sha256"


class Store:
    """A folder of Parquet files, one per finished run, named by the run's key.

    Parameters
    ----------
    folder
        Created with the first stored run.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"

    def get(self, run: Run, key: str | None = None) -> Ledger | None:
        """The ledger of a run; None if it is not finished or its file is damaged.

        Parameters
        ----------
        run
            The run.
        key
            The run's key, if known.
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
            fields = {name: row[name] for name in Ledger.__dataclass_fields__ if name not in NESTED_FIELDS}
            return Ledger(**fields, **{name: json.loads(row[name]) for name in NESTED_FIELDS})
        except Exception:  # any error means that the file is damaged
            return None

    def put(self, run: Run, ledger: Ledger, key: str | None = None) -> None:
        """Store the ledger of a run atomically.

        Parameters
        ----------
        run, ledger
            The run and its ledger.
        key
            The run's key when it started, if known; its input files may have changed since.
        """
        import pyarrow
        from pyarrow import parquet

        row = ledger.to_dict()
        row |= {name: json.dumps(row[name]) for name in NESTED_FIELDS}
        row |= {"version": __version__, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        row |= {"seed_of_run": run.seed, "policy_of_run": run.policy, "run": json.dumps(run.to_dict())}
        table = pyarrow.Table.from_pylist([row])
        table = table.replace_schema_metadata({_DIGEST: _digest(*table.to_pylist())})
        self.folder.mkdir(parents=True, exist_ok=True)
        with replace_file(self._path(key or run.key)) as file:
            parquet.write_table(table, file)


def _digest(row: dict[str, Any]) -> bytes:
    """Checksum of all values; Parquet itself detects few bit errors."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest().encode()
