"""Whether files are still those that were indexed."""

import os
from pathlib import Path

import pytest

from faemb.collection import Collection
from faemb.collection.file_state import CHANGED, MISSING, UNCHANGED, note_on_files, state_at_a_glance, state_of
from faemb.runtime.paths_and_urls import place
from pictures import picture
from small_collections import make_collection


@pytest.fixture
def states(tmp_path):
    """What is known of one image: at a glance, and after reading it."""
    make_collection(tmp_path, ["a.png", "b.png"])
    with Collection.open(tmp_path / "photos.faemb") as photos:
        entry = photos.entry(tmp_path / "photos" / "a.png")
    assert entry is not None
    assert entry is not None
    return lambda path=tmp_path / "photos" / "a.png": (state_at_a_glance(path, entry), state_of(path, entry))


@pytest.fixture
def image(tmp_path) -> Path:
    return tmp_path / "photos" / "a.png"


def test_the_file_that_was_indexed(states):
    assert states() == (UNCHANGED, UNCHANGED)


def test_a_copied_file_has_another_time_and_the_same_bytes(states, image):
    os.utime(image, (1, 1))
    assert states() == (None, UNCHANGED)


def test_other_bytes_of_the_same_number(states, image):
    content = bytearray(image.read_bytes())
    content[-1] ^= 1
    image.write_bytes(content)
    os.utime(image, (1, 1))
    assert states() == (None, CHANGED)


def test_another_picture(states, image):
    picture(image, 77)
    assert states() == (CHANGED, CHANGED)


def test_a_file_that_is_gone(states, image):
    image.unlink()
    assert states() == (MISSING, MISSING)


def test_no_server_is_asked(states):
    assert states(place("s3://nowhere/a.png")) == (None, None)


def test_no_note_if_nothing_is_astray():
    assert note_on_files(Path("c.faemb"), [], {}) == ""
    assert note_on_files(Path("c.faemb"), [], {Path("a"): UNCHANGED, Path("b"): None}) == ""
