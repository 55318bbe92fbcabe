"""The argument of commands that names a store: optional, or required."""

from __future__ import annotations

from typing import Annotated

import typer

StoreArgument = Annotated[
    str,
    typer.Argument(envvar="RELEAF_STORE", help="The store of the service: a file, or a postgresql:// address."),
]
RequiredStore = Annotated[
    str, typer.Argument(help="The store of the service: a file, or a postgresql:// address.", metavar="STORE")
]
