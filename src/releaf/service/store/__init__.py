"""Where the log is kept: one interface, an embedded store and PostgreSQL."""
