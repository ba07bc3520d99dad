"""The SQLite store: one file, many sessions, any number of threads and processes on one machine.

`store.SqliteStore` implements the port; behind it are the opened file (`database`), the writer with its group commit
(`writer`), the readers (`readers`), rows (`rows`), pages of sessions (`listing`) and deletion (`removal`). SQL is in
`sql/` and `migrations/`, each statement with a name and its purpose.
"""
