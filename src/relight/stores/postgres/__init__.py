"""The PostgreSQL store: one database, many sessions, any number of processes on any number of machines.

`store.PostgresStore` is the front; behind it stand the connections (`connections`), the committing of steps
(`journal`), the server's time (`servertime`), the rows (`rows`), the pages (`listing`) and the deletion (`removal`).
SQL is in `sql/` and `migrations/`, each statement with a name and its purpose. Nothing here relies on the state of a
connection between two transactions, so that a pooler may stand in between.
"""
