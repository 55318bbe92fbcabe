"""``python -m releaf`` is the command ``releaf``."""

from releaf.cli import app

app()
