"""Names of images in a catalogue, against the definition of one path at a time."""

import os
from pathlib import Path

import pytest

from faemb.collection.layout import Layout

COLLECTION = Path("/home/me/pictures/photos.faemb")
PLACES = [
    "/home/me/pictures/photos.faemb",
    "/home/me/pictures/photos.faemb/inside.png",
    "/home/me/pictures/photos.faemb/deeper/inside.png",
    "/home/me/pictures",
    "/home/me/pictures/a.png",
    "/home/me/pictures/trip/a.png",
    "/home/me/pictures/trip/../a.png",
    "/home/me/pictures2/a.png",
    "/home/me/a.png",
    "/home/me",
    "/a.png",
    "/",
    "//a.png",
    "/home/me/pictures/back\\slash/a.png",
    os.fsdecode(b"/home/me/pictures/no\xff text/a\xfe.png"),
]


def slow_name(path: str) -> str:
    """Relative if it lies in the folder that holds the collection, else absolute; no surrogates."""
    absolute = Path(os.path.abspath(path))
    if absolute.is_relative_to(COLLECTION.parent):
        absolute = Path(os.path.relpath(absolute, COLLECTION))
    return "".join(f"\0{ord(each):04x}" if "\ud800" <= each <= "\udfff" else each for each in absolute.as_posix())


@pytest.mark.skipif(os.sep != "/", reason="these are paths of POSIX systems")
@pytest.mark.parametrize("path", PLACES, ids=ascii)
def test_names_are_those_of_the_definition(path):
    layout = Layout(COLLECTION)
    assert layout.name_of(path) == layout.name_of(Path(path)) == slow_name(path)
    assert layout.path_of(layout.name_of(path)) == Path(os.path.abspath(path))


def test_urls_are_named_by_their_text():
    layout = Layout(COLLECTION)
    assert layout.name_of("s3://bucket/trip/a.png") == "s3://bucket/trip/a.png"
    assert layout.names_of("s3://bucket/trip/a.png") == {"s3://bucket/trip/a.png"}
