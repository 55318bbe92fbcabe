"""HTTP layer: routes, handlers, OpenAPI description, connection limits and metrics."""
