"""Connections to a Dask scheduler: one that is running, or one that is started on this machine with its workers.

A local cluster accepts only this process: it uses TLS with certificates that are made for it and never stored, since
anyone who can reach a scheduler can run code as its user, and other users of the machine can reach its loopback
interface.
"""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from faemb.errors import FaembError, InputError, MissingExtraError
from faemb.runtime.worker_processes import signals_blocked
from faemb.settings import require_whole

EXTRA = "cluster"
CONNECTING = 10.0
"""Seconds to wait for a scheduler."""
_SETTINGS = {
    "distributed.comm.timeouts.connect": CONNECTING,
    "distributed.admin.large-graph-warning-threshold": "1TB",  # a model is sent once
}
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "distributed.nanny", "distributed.scheduler")


@contextmanager
def connected_to(name: str) -> Iterator[Any]:
    """A Dask client of the scheduler at an address such as tcp://host:8786, or of local:N, which is started."""
    address, count = _parsed(name)
    distributed = _distributed()
    with _quiet(distributed):
        if count is None:
            with _connected(distributed, address) as client:
                yield client
        else:
            with (
                _local(distributed, count) as (address, security),
                _connected(distributed, address, security) as client,
            ):
                yield client


def _parsed(name: str) -> tuple[str, int | None]:
    """An address, or the number of local workers."""
    if match := re.fullmatch(r"local:(\d{1,4})", name, re.ASCII):
        require_whole("the number of local workers", int(match[1]), 1, 1024)
        return "", int(match[1])
    if not re.fullmatch(r"(tcp|tls)://[^\s/]+:\d{1,5}", name, re.ASCII):
        raise InputError(
            f"cluster is {name!r}; expected the address of a Dask scheduler, such as tcp://scheduler:8786, or local:N "
            "for N workers on this machine"
        )
    return name, None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("a cluster", EXTRA) from error
    return distributed


@contextmanager
def _quiet(distributed: Any) -> Iterator[None]:
    """Silence Dask's log about lost workers and connections, which this module reports itself."""
    import dask

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    with dask.config.set(_SETTINGS):
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


@contextmanager
def _local(distributed: Any, count: int) -> Iterator[tuple[str, Any]]:
    """A scheduler in this process, with workers in processes of their own, which end with this one: its address, and
    the certificates that it wants."""
    try:
        security = distributed.Security.temporary()
    except ImportError as error:
        raise MissingExtraError("a local cluster", EXTRA) from error
    with signals_blocked():  # Ctrl-C is for this process alone, which stops the workers
        cluster = distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            security=security,
            silence_logs=logging.CRITICAL,
        )
    try:
        yield cluster.scheduler_address, security
    finally:
        cluster.close()


@contextmanager
def _connected(distributed: Any, address: str, security: Any = None) -> Iterator[Any]:
    try:
        with warnings.catch_warnings(action="ignore"):  # about other versions, which `check` compares itself
            client = distributed.Client(address, timeout=CONNECTING, set_as_default=False, security=security)
    except (OSError, TimeoutError) as error:
        raise FaembError(
            f"there is no Dask scheduler at {address}; start one with: dask scheduler, or check the address"
        ) from error
    try:
        yield client
    finally:
        with suppress(OSError, TimeoutError):
            client.close(timeout=CONNECTING)
