"""Finished runs, kept one file each, so that none is done twice and a stop loses only what was in flight."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from releaf._version import __version__
from releaf.evaluate.ledger import Ledger
from releaf.evaluate.runs import Run, execute
from releaf.executors import Executor, Local

_NESTED = ("reward_interval", "relevance", "partition", "curves")


class Store:
    """A folder of Parquet files, one for each finished run, named by what the run is.

    Parameters
    ----------
    folder
        Made when the first run is kept.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def _path(self, run: Run) -> Path:
        return self.folder / f"{run.key}.parquet"

    def get(self, run: Run) -> Ledger | None:
        """What a run gave; None when it is not finished. A damaged file is as good as none."""
        import pyarrow
        from pyarrow import parquet

        try:
            (row,) = parquet.read_table(self._path(run)).to_pylist()
            fields = {name: row[name] for name in Ledger.__dataclass_fields__ if name not in _NESTED}
            return Ledger(**fields, **{name: json.loads(row[name]) for name in _NESTED})
        except (OSError, ValueError, KeyError, TypeError, pyarrow.ArrowInvalid):
            return None

    def put(self, run: Run, ledger: Ledger) -> None:
        """Keep what a run gave, whole or not at all."""
        import pyarrow
        from pyarrow import parquet

        row = ledger.to_dict()
        row |= {name: json.dumps(row[name]) for name in _NESTED}
        row |= {"version": __version__, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        row |= {"seed_of_run": run.seed, "policy": run.policy, "run": json.dumps(run.to_dict(), default=str)}
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        os.close(handle)
        try:
            parquet.write_table(pyarrow.Table.from_pylist([row]), temporary)
            os.replace(temporary, self._path(run))
        finally:
            Path(temporary).unlink(missing_ok=True)


def sweep(
    runs: Sequence[Run],
    store: Store | None = None,
    executor: Executor | None = None,
    done: Callable[[Run, Ledger, bool], Any] = lambda run, ledger, kept: None,
) -> list[Ledger]:
    """Do all runs that were not done before, in parallel; the ledgers in the order of the runs.

    Parameters
    ----------
    runs
        Any number, of any policies and streams. Runs that would do the same are done once.
    store
        Where finished runs are kept and looked for; None keeps none.
    executor
        Where they are done; on this machine's cores when None. What is finished is kept here, as it comes in.
    done
        Told of each run with its ledger, and whether it had been kept from before.
    """
    places: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        places.setdefault(run.key, []).append(place)
    found: dict[int, Ledger] = {}

    def tell(same: list[int], ledger: Ledger, kept: bool) -> None:
        for place in same:
            found[place] = ledger
            done(runs[place], ledger, kept)

    missing = []
    for same in places.values():
        kept = store.get(runs[same[0]]) if store is not None else None
        if kept is None:
            missing.append(same)
        else:
            tell(same, kept, True)
    for turn, ledger in (executor or Local()).map(execute, [runs[same[0]] for same in missing]):
        if store is not None:
            store.put(runs[missing[turn][0]], ledger)
        tell(missing[turn], ledger, False)
    return [found[place] for place in range(len(runs))]
