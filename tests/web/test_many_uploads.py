"""A server that is searched with thousands of photographs keeps a few of them, and no more memory than for these."""

import io
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import PIL.Image
import pytest

from faemb.web import queries
from processes import PATIENCE, wait_until
from served import Served, served
from small_collections import make_collection

UPLOADS, SENDERS = 5 * queries._MOST, 2
"""`python -m benchmarks serving` sends 10,000."""
_GROWTH = 4_000 * UPLOADS
"""Bytes by which the process may grow: 4 KB for each photograph that is sent."""


def tiny(number: int) -> bytes:
    """A picture of 8 x 8 pixels, with no local features, which no other number has."""
    levels = np.frombuffer(number.to_bytes(64, "little"), np.uint8).reshape(8, 8)
    stream = io.BytesIO()
    PIL.Image.fromarray(levels).save(stream, "PNG")
    return stream.getvalue()


def send(server: Served, numbers: Iterable[int]) -> set[int]:
    """Statuses of the answers."""
    with httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False) as client:
        sent = ({"file": (f"{number}.png", tiny(number))} for number in numbers)
        return {client.post("/api/search", files=each).status_code for each in sent}


def memory(server: Served) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_thousands_of_photographs(tmp_path):
    collection = make_collection(tmp_path / "c", ["a.png", "b.png"]) / "photos.faemb"
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def kept() -> int:
        return sum(1 for file in temporary.rglob("*.png"))

    with served(collection, TMPDIR=str(temporary)) as server, ThreadPoolExecutor(SENDERS) as threads:
        assert send(server, range(queries._MOST)) == {200}
        before = memory(server)
        parts = [range(queries._MOST + part, UPLOADS, SENDERS) for part in range(SENDERS)]
        assert set().union(*threads.map(lambda part: send(server, part), parts)) == {200}
        assert memory(server) - before < _GROWTH
        assert wait_until(lambda: kept() <= queries._MOST)
        assert kept() == queries._MOST
