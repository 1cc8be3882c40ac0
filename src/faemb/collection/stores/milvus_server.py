"""Calls to a Milvus server: retried while it is unavailable, errors converted to ours.

All calls can be repeated: rows are upserted and deleted by id. Two environment variables:

    FAEMB_STORE_SECONDS    seconds for which calls to a server that has become unavailable are retried; 120 if not set
    FAEMB_MILVUS_TOKEN     "USER:PASSWORD" or an API key, if the server requires one; it is never stored
"""

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from faemb.collection.stores.addresses import Address
from faemb.errors import FaembError, FormatError, InputError, MissingExtraError, reason
from faemb.runtime.limits import seconds_in

PATIENCE, TOKEN = "FAEMB_STORE_SECONDS", "FAEMB_MILVUS_TOKEN"
_PATIENCE = 120.0
_AT_MOST: ContextVar[float] = ContextVar("at_most", default=math.inf)
_FIRST_CONTACT, ONE_CALL = 10.0, 60.0
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_MISSING, _NOT_LOADED = 100, 101
_FULL = {9}  # writes are denied: the quota of memory or disk is used up
_PASSING = {1, 2, 3, 8, 102, 106, 500, 501, 502, 503, 504, 505, 901, 902, 903, 904}
"""Error codes of a server that is starting, moving data between its nodes, or overloaded."""
_PASSING_WORDS = (
    "not ready",
    "retry timeout",
    "retry run out",
    "no available",
    "recovering",
    "node offline",
    "unhealthy",
)

STRONG, BOUNDED = "Strong", "Bounded"
_YOUNG = 10.0
"""Seconds for which searches after a change ask for strong consistency."""


class StoreAwayError(FaembError):
    """A server does not answer."""


class StoreFullError(FaembError):
    """A server has no room."""


def consistency(since: float) -> str:
    """Level at which a search sees all that was written before this time (`time.monotonic`)."""
    return STRONG if time.monotonic() - since < _YOUNG else BOUNDED


class Server:
    """One connection, made by the first call.

    home: the collection's folder, as it can be typed
    """

    def __init__(self, address: Address, home: str = "COLLECTION") -> None:
        self.address, self._home = address, home
        self._client: Any = None

    def ask(self, what: str, *arguments: Any, **named: Any) -> Any:
        """Result of a method of pymilvus's `MilvusClient`."""
        return self.ask_by(lambda client: getattr(client, what)(*arguments, timeout=ONE_CALL, **named), *arguments)

    def ask_by(self, calls: Callable[[Any], Any], *about: Any) -> Any:
        """Result of several repeatable calls of a `MilvusClient`; `about` begins with the name of a table."""
        client, end, pause = self._connected(), time.monotonic() + patience(), _PAUSE
        while True:
            try:
                client = client or self._connected()
                return calls(client)
            except Exception as error:
                fault = error if isinstance(error, FaembError) else self._explained(error)
                if not isinstance(fault, StoreAwayError) or time.monotonic() + pause > end:
                    raise fault from error
                if _code(error) == _NOT_LOADED:
                    self._load(str(about[0]))
                else:
                    self.close()  # a connection to a server that was restarted may be unusable
                    client = None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
            self._client = None

    def _connected(self) -> Any:
        if self._client is None:
            make, where = milvus().MilvusClient, self.address
            how = {
                "token": os.environ.get(TOKEN, ""),
                "timeout": min(_FIRST_CONTACT, _AT_MOST.get()),
                "dedicated": True,
            }
            try:
                self._client = make(uri=where.uri, db_name=where.database, **how)
            except Exception as error:
                raise self._explained(error) from error
        return self._client

    def _load(self, table: str) -> None:
        with suppress(Exception):  # the call that needs it is repeated, and reports the error
            self._client.load_collection(table, timeout=ONE_CALL)

    def _explained(self, error: Exception) -> FaembError:
        """An error of pymilvus or gRPC as one of ours; others are not caught."""
        text, code, where = _message(error), _code(error), f"the Milvus server at {self.address.server}"
        if code == _MISSING or "collection not found" in text:
            return FormatError(
                f"{where} has lost a collection ({text}); restore it there, or compute the vectors again with: "
                f"faemb check {self._home} --repair"
            )
        if code in _FULL or "quota" in text or "memory limit" in text:
            return StoreFullError(
                f"{where} has no room ({text}); what was stored before is safe: give it more memory or disk, and run "
                "the same command again"
            )
        if "UNAUTHENTICATED" in str(code) or "auth check failure" in text:
            return InputError(f"{where} wants other credentials; give them as {TOKEN}=USER:PASSWORD")
        if "database not found" in text:
            return InputError(f"{where} has no database {self.address.database}; make it there first")
        if _is_passing(error):
            return StoreAwayError(
                f"{where} does not answer ({text}); what was stored before is safe: start the server, or give its new "
                "address (with --store, or as the ADDRESS of faemb copy if it is the target), and run the same command "
                "again"
            )
        if isinstance(error, _errors()):
            return FaembError(f"{where} refuses: {text}")
        raise error


def patience() -> float:
    """Seconds for which calls to an unavailable server are retried."""
    return min(seconds_in(PATIENCE, _PATIENCE), _AT_MOST.get())


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Limit retries in this block: a request is waiting."""
    before = _AT_MOST.set(seconds)
    try:
        yield
    finally:
        _AT_MOST.reset(before)


def milvus() -> Any:
    try:
        import pymilvus as library
    except ImportError as error:
        raise MissingExtraError("a store in Milvus", "milvus") from error
    for name in ("pymilvus", "grpc"):  # they log every error with a traceback
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return library


def _errors() -> tuple[type[Exception], ...]:
    import grpc

    return milvus().MilvusException, grpc.RpcError, grpc.FutureTimeoutError


def _code(error: Exception) -> Any:
    """Milvus's error number, or gRPC's status."""
    code = getattr(error, "code", None)
    return code() if callable(code) else code


def _message(error: Exception) -> str:
    details = getattr(error, "details", None)
    text = details() if callable(details) else getattr(error, "message", None)
    return reason(Exception(text or str(error)))


def _is_passing(error: Exception) -> bool:
    code, text = _code(error), str(getattr(error, "message", "")).lower()
    if getattr(code, "name", "") in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL", "CANCELLED", "ABORTED"):
        return True
    passing = code in _PASSING or code == _NOT_LOADED or bool(getattr(error, "retriable", False))
    return isinstance(error, _errors()) and (passing or any(words in text for words in _PASSING_WORDS))
