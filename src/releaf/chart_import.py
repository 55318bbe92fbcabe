"""Import of :mod:`releaf.charts`, which needs the extra `plots`."""

from __future__ import annotations

from typing import Any


def import_charts() -> Any:
    """Return the module of charts; the error where Altair is absent says what to install."""
    try:
        from releaf import charts
    except ModuleNotFoundError as error:
        message = f'releaf.plot needs {error.name}: pip install "releaf[plots]", or ".[plots]" in a clone'
        raise ModuleNotFoundError(message, name=error.name) from None
    return charts
