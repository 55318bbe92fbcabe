"""The argument of commands that names a store."""

from __future__ import annotations

from typing import Annotated

import typer

StoreArgument = Annotated[
    str,
    typer.Argument(envvar="RELEAF_STORE", help="The store of the service: a file, or a postgresql:// address."),
]
