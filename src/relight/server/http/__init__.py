"""The HTTP layer: middleware, guard, route declarations, schemas, problem documents, the listening server."""
