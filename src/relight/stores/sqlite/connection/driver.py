"""Translates the driver's errors to store errors. No exception of apsw leaves this package.

StoreFull and StoreReadOnly mean that nothing was written; Corrupt that bytes are not what was written; everything else
is StoreUnavailable, and from COMMIT that means an unknown outcome (`writer`).
"""

from __future__ import annotations

import errno
import os
from typing import Final

import apsw

from relight.errors import Corrupt, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

BUSY_SECONDS: Final = 30.0
"""how long a connection waits for a lock"""

DRIVER_ERRORS: Final = (apsw.Error, UnicodeDecodeError)
"""what a statement may raise; UnicodeDecodeError if a flipped byte has turned a number into text"""
_DAMAGED: Final = (
    UnicodeDecodeError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.FormatError,
    apsw.SQLError,
    apsw.MismatchError,
)
_LOCKED: Final = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
_FORBIDDEN: Final = (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError)
_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_READ_ONLY_ERRNOS: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def store_error(
    error: Exception, where: str, *, session: str | None = None, seq: int | None = None, system_errno: int = 0
) -> StoreError:
    """The store error for an error of the driver."""
    message = f"sqlite: {error} ({_code_of(error)})"
    if isinstance(error, _DAMAGED):
        # Our statements are fixed and tested: one that suddenly does not fit the schema means that the file changed.
        return Corrupt(f"the store {where} is damaged ({error})", session=session, seq=seq)
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(where, system_errno)):
        return StoreFull(where)
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
        return StoreUnavailable(f"{where}: the file was moved or deleted while in use", evidence=[message])
    if isinstance(error, _FORBIDDEN) or (isinstance(error, apsw.CantOpenError) and system_errno in _READ_ONLY_ERRNOS):
        return StoreReadOnly(where)
    if isinstance(error, _LOCKED):
        return StoreUnavailable(
            f"{where}: locked by another process",
            evidence=[message],
            hints=[f"see who has it open: fuser {where}"],
        )
    return StoreUnavailable(
        f"{where}: the store could not be used", evidence=[message], hints=["check the disk, then: relight verify"]
    )


def _code_of(error: Exception) -> str:
    """SQLite's name for the error, the extended one: it names the lock that was not available."""
    code = getattr(error, "extendedresult", -1)
    names = (apsw.mapping_extended_result_codes, apsw.mapping_result_codes)
    return str(next((known[code] for known in names if code in known), type(error).__name__))


def _is_full(where: str, system_errno: int) -> bool:
    """True if the disk is full. SQLite does not always keep the errno, so the file system is asked too."""
    if system_errno in _FULL_ERRNOS:
        return True
    try:
        return os.statvfs(os.path.dirname(where)).f_bavail == 0
    except OSError:
        return False
