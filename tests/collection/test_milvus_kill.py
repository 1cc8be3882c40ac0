"""A Milvus server that is killed while images are added: every image that was acknowledged is found afterwards.

The command waits for the server to come back. Kills fall at chosen shares of the calls that store vectors, so that they
hit a call before, while and after the server works on it.
"""

import random
import threading

import numpy as np
import pytest

from faemb.collection import Collection
from faemb.collection.stores.milvus_server import Server as MilvusServer
from milvus_beside import MilvusBeside
from pictures import pictures
from small_collections import names_below, tiny_model, vectors_of

pytestmark = pytest.mark.milvus

KILLS, IMAGES = 5, 8


def test_what_was_acknowledged_is_found_after_each_kill(milvus_server, tmp_path, monkeypatch):
    monkeypatch.setattr("faemb.collection.stores.milvus._BATCH_BYTES", 400)  # two images in a call
    chance, folder = random.Random(14), tmp_path / "photos.faemb"  # noqa: S311
    with Collection.create(folder, tiny_model(), store=milvus_server.address("killed")) as collection:
        collection.add(pictures(tmp_path / "0", range(IMAGES)))
        expected = vectors_of(collection)
        for number in range(1, KILLS + 1):
            photos = pictures(tmp_path / str(number), range(100 * number, 100 * number + IMAGES))
            killer = Killer(
                milvus_server, monkeypatch, at=chance.randrange(1, IMAGES // 2), after=chance.choice((0, 0.002, 0.02))
            )
            report = collection.add(photos)
            killer.join()
            assert killer.has_killed
            assert report.added == IMAGES
            found = vectors_of(collection)
            assert len(found) == IMAGES * (number + 1)
            for name, vector in expected.items():
                np.testing.assert_array_equal(found[name], vector, err_msg=name)
            expected = found
    with Collection.open(folder) as again:
        assert again.check() == []
        table = again._store.get().table(1, again.model)
        assert table.count() == again.info().searchable == IMAGES * (KILLS + 1)
        (answer,) = again.search(tmp_path / "1" / "100.png", top=100, verify=0)
        assert sorted(names_below(answer.hits, tmp_path)) == names_below(again, tmp_path)
        assert answer.hits[0].similarity == 1


class Killer:
    """Kills the server `after` seconds from the beginning of a call that stores vectors, and starts it again."""

    def __init__(self, server: MilvusBeside, patch: pytest.MonkeyPatch, *, at: int, after: float) -> None:
        self._server, self._left, self._after = server, at, after
        self._thread = threading.Thread(target=self._kill)
        self.has_killed = False
        ask = MilvusServer.ask

        def watched(this: MilvusServer, what: str, *arguments: object, **named: object) -> object:
            if what == "upsert":
                self._left -= 1
                if self._left == 0:
                    self._thread.start()
            return ask(this, what, *arguments, **named)

        patch.setattr(MilvusServer, "ask", watched)
        self._undo = lambda: patch.setattr(MilvusServer, "ask", ask)

    def _kill(self) -> None:
        threading.Event().wait(self._after)
        self._server.kill()
        self.has_killed = True
        self._server.start()

    def join(self) -> None:
        self._thread.join()
        self._undo()
