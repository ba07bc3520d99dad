"""HTTP itself: routes, guard, schemas, problem documents, the socket."""
