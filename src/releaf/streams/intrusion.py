"""Network intrusion detection: the KDD Cup 1999 data set (10 % file) as a stream."""

from __future__ import annotations

import csv
import gzip
from array import array
from functools import lru_cache
from pathlib import Path

import numpy as np

from releaf.arrays import Matrix
from releaf.streams.data_files import DownloadProgress, fetch, min_max_scale
from releaf.streams.stream import Stream

NAME = "kddcup.data_10_percent.gz"
URL = "https://ndownloader.figshare.com/files/5976042"
SHA256 = "8045aca0d84e70e622d1148d7df782496f6333bf6eb979a1b0837c42a9fd9561"
ACTIONS = ("attack", "no attack")
# The paper takes 15 of the 42 columns and does not name them. These are the numeric ones, by their column in the file.
FEATURES = {
    "duration": 0,
    "src_bytes": 4,
    "dst_bytes": 5,
    "wrong_fragment": 7,
    "hot": 9,
    "num_failed_logins": 10,
    "logged_in": 11,
    "num_compromised": 12,
    "count": 22,
    "srv_count": 23,
    "serror_rate": 24,
    "srv_serror_rate": 25,
    "same_srv_rate": 28,
    "dst_host_count": 31,
    "dst_host_srv_count": 32,
}
_NORMAL = "normal."


def fetch_intrusion(progress: DownloadProgress | None = None) -> Path:
    """Find the file or download it once (2 MB); ``progress`` is called with the bytes done and in total."""
    return fetch(NAME, URL, SHA256, progress)


def intrusion(
    steps: int = 20_000, start: int = 0, scaled_by: int | None = None, progress: DownloadProgress | None = None
) -> Stream:
    """Connection records in the order of the file; the right verdict earns 1, the wrong one 0.

    Features are scaled by the minimum and maximum of the whole file, with which the paper's numbers of labels come out
    best. In file order attacks come in long runs.

    Parameters
    ----------
    steps, start
        Number of records, and the first of them.
    scaled_by
        Number of records at the start of the file that determine the minimum and maximum; values beyond are clipped.
        When None, all records of the file determine them.
    progress
        Called with the bytes done and in total during the download, which happens once (2 MB).
    """
    if steps < 1 or start < 0:
        raise ValueError(f"steps={steps}, start={start}: expected at least one record, from 0 on")
    if scaled_by is not None and scaled_by < 1:
        raise ValueError(f"scaled_by={scaled_by}: expected a number of records from 1 on, or None")
    path = fetch_intrusion(progress)
    values, attacks = _records(path)
    if start + steps > len(values):
        raise ValueError(f"steps={steps} from {start} on is more than the file has; it has {len(values)} records")
    attack = attacks[start : start + steps]
    rewards = np.column_stack([attack, 1.0 - attack])
    contexts = min_max_scale(values[start : start + steps], values[:scaled_by])
    return Stream(contexts, rewards, tuple(FEATURES), ACTIONS)


@lru_cache(maxsize=1)  # several streams of one file are made in one run
def _records(path: Path) -> tuple[Matrix, Matrix]:
    """The features of all records, and 1 for each that is an attack."""
    values, attacks = array("d"), array("d")
    with gzip.open(path, "rt", encoding="ascii") as file:
        for row in csv.reader(file):
            values.extend([float(row[column]) for column in FEATURES.values()])
            attacks.append(row[-1] != _NORMAL)
    return np.frombuffer(values).reshape(-1, len(FEATURES)), np.frombuffer(attacks)
