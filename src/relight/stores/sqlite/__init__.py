"""The SQLite store: one file, many sessions, any number of threads and processes on one machine.

`store.SqliteStore` is the front; behind it stand the opened file (`database`), the writer with its group commit
(`writer`), the readers (`readers`), the rows (`rows`), the pages (`listing`) and the deletion (`removal`). SQL is in
`sql/` and `migrations/`, each statement with a name and its purpose.
"""
