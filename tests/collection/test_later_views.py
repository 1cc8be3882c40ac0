"""The state of a collection that others change while it is open: read anew, or only what was added, it is the same."""

import random

import numpy as np
import pytest

from faemb.collection import Collection
from faemb.collection.catalogue import Catalogue
from pictures import picture, pictures

STEPS = 25


@pytest.fixture
def reads(monkeypatch):
    """For each read of slots in use, the slot after which they were read; None: all."""
    reads: list[int | None] = []
    live = Catalogue.live

    def watched(this, **given):
        reads.append(given.get("after"))
        return live(this, **given)

    monkeypatch.setattr(Catalogue, "live", watched)
    return reads


def require_same(open_before: Collection, folder) -> None:
    with Collection.open(folder) as fresh:
        seen, expected = open_before.view(), fresh.view()
        assert seen.generation == expected.generation
        np.testing.assert_array_equal(seen.slots, expected.slots)
        np.testing.assert_array_equal(seen.ids, expected.ids)
        np.testing.assert_array_equal(seen.vectors[seen.slots], expected.vectors[expected.slots])


@pytest.mark.parametrize("seed", range(2))
def test_views_after_changes_of_another(collection, photos, seed):
    chance = random.Random(seed)  # noqa: S311
    with Collection.open(collection.layout.folder) as reader:
        for step in range(STEPS):
            stored = sorted(entry.path for entry in collection.entries())
            what = chance.choice(["add", "add", "add", "remove", "change", "relearn"])
            if what == "add":
                collection.add(pictures(photos.parent / f"step{step}", range(100 + 3 * step, 101 + 3 * step)))
            elif what == "remove" and len(stored) > 4:
                collection.remove(collection.layout.path_of(chance.choice(stored)))
            elif what == "change":
                picture(collection.layout.path_of(chance.choice(stored)), 1000 + step)
                collection.update()
            elif what == "relearn" and step % 7 == 0:
                collection.relearn()
            if chance.random() < 0.7:
                require_same(reader, collection.layout.folder)
        require_same(reader, collection.layout.folder)


def test_of_a_collection_that_has_grown_only_what_is_new_is_read(collection, photos, reads):
    folder = collection.layout.folder
    collection.remove(photos / sorted(path.name for path in photos.iterdir())[0])  # what is not in use is counted now
    with Collection.open(folder) as reader:
        last = int(reader.view().slots[-1])
        reads.clear()
        collection.add(pictures(photos.parent / "more", range(50, 53)))
        assert len(reader.view().slots) == 7
        assert reads == [last]
        collection.remove(photos.parent / "more" / "050.png")
        reads.clear()
        assert len(reader.view().slots) == 6
        assert reads == [None]
        require_same(reader, folder)
