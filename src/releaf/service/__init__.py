"""The decision service: decide and learn over HTTP, with a log that loses nothing that was acknowledged."""
