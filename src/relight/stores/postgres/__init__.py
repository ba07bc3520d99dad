"""The PostgreSQL store: one database, many sessions, any number of processes on any number of machines.

`store.PostgresStore` implements the port; behind it are the connections (`connections`), the commit path (`commits`,
`batching`), the server's time (`server_time`), rows (`rows`), pages of sessions (`listing`) and deletion (`removal`).
SQL is in `sql/` and `migrations/`, each statement with a name and its purpose. Nothing relies on the state of a
connection between two transactions, so a transaction pooler may be in front of the server.
"""
