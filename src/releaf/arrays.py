"""Type aliases for NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Matrix = np.ndarray[Any, np.dtype[np.float64]]
Row = np.ndarray[Any, np.dtype[np.float64]]  # one encoded context
