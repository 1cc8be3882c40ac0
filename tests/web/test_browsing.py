"""Lists of images: order, filters, folders and dates."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import PIL.Image
import pytest

from faemb.collection import Collection
from faemb.web.listing import Dates, Filter, Listing
from pictures import picture, pixels
from small_collections import make_collection
from writable_server import names, problem, send, writable

DATES = {"a.jpg": "2014:07:20 13:05:09", "trip/d.jpg": "2014:07:21 00:00:00"}


def photograph(path: Path, seed: int, taken: str) -> None:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = taken
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(pixels(seed)).save(path, exif=exif)


@pytest.fixture
def collection(tmp_path: Path, in_this_process: None) -> Path:
    made = make_collection(tmp_path, ["b.png", "trip/deep/e.png"]) / "photos.faemb"
    for seed, (name, date) in enumerate(DATES.items(), 80):
        photograph(tmp_path / "photos" / name, seed, date)
    os.utime(tmp_path / "photos" / "b.png", (1e9, 1e9))
    os.utime(tmp_path / "photos" / "trip" / "deep" / "e.png", (1.1e9, 1.1e9))
    with Collection.open(made) as photos:
        photos.update()
    return made


@pytest.fixture
def client(collection: Path) -> Iterator[httpx.Client]:
    with writable(collection) as client:
        yield client


def listed(client: httpx.Client, **given: str) -> list[str]:
    answer = client.get("/api/images", params=given)
    assert answer.status_code == 200, answer.text
    return names(answer.json()["images"])


def test_dates_are_those_of_the_photographs_or_of_the_files(client):
    images = {image["name"]: image for image in client.get("/api/images").json()["images"]}
    assert (images["a.jpg"]["date"], images["a.jpg"]["taken"]) == ("2014-07-20T13:05:09", True)
    changed = datetime.fromtimestamp(1e9).isoformat()
    assert (images["b.png"]["date"], images["b.png"]["taken"]) == (changed, False)
    one = client.get(f"/api/images/{images['a.jpg']['id']}").json()
    assert (one["date"], one["taken"]) == ("2014-07-20T13:05:09", True)


def test_order(client):
    assert listed(client) == ["a.jpg", "b.png", "d.jpg", "e.png"]
    assert listed(client, order="date") == ["d.jpg", "a.jpg", "e.png", "b.png"]


def test_first_and_last_day(client):
    assert listed(client, since="2014-07-21") == ["d.jpg"]
    assert listed(client, until="2014-07-20") == ["a.jpg", "b.png", "e.png"]
    assert listed(client, since="2014-07-20", until="2014-07-20") == ["a.jpg"]
    assert "since" in problem(client.get("/api/images", params={"since": "yesterday"}), 422)


def test_searches_are_restricted_too(client):
    def found(**given: str) -> list[str]:
        answer = client.post("/api/search", data={"query": "image-1", **given})
        assert answer.status_code == 200, answer.text
        return sorted(names(answer.json()["hits"]))

    assert found() == ["a.jpg", "b.png", "d.jpg", "e.png"]
    assert found(since="2014-07-20") == ["a.jpg", "d.jpg"]
    assert found(since="2014-07-20", until="2014-07-20") == ["a.jpg"]
    assert found(since="", until="") == found()


def test_folders_with_the_number_of_images_below(client, tmp_path):
    photos = tmp_path / "photos"
    expected = {str(photos): 4, str(photos / "trip"): 2, str(photos / "trip" / "deep"): 1}
    assert folders(client) == expected
    send(client, picture(tmp_path / "new.png", 50))
    assert folders(client) == expected | {str(tmp_path / "photos-uploads"): 1}
    assert listed(client, folder=str(photos / "trip")) == ["d.jpg", "e.png"]
    assert listed(client, folder=str(photos / "tri")) == []


def folders(client: httpx.Client) -> dict[str, int]:
    return {each["folder"]: each["images"] for each in client.get("/api/folders").json()["folders"]}


def test_what_has_not_changed_is_not_read_again(collection, tmp_path, monkeypatch):
    asked: list[Any] = []
    read = Collection.dates_taken
    monkeypatch.setattr(Collection, "dates_taken", lambda *given: asked.append(given[1:]) or read(*given))  # type: ignore[func-returns-value]
    listing = Listing(Dates())
    with Collection.open(collection) as photos:
        before = {image.name: image for image in listing.images(photos)}
        del asked[:]
        photos.add(picture(tmp_path / "photos" / "f.png", 50))
        after = {image.name: image for image in listing.images(photos)}
        assert all(after[name] is image for name, image in before.items())
        assert [len(given) for given in asked] == [1]  # of one image alone
        assert listing.images(photos) is listing.images(photos)


def test_an_empty_filter_restricts_nothing():
    assert not Filter()
    assert Filter(name="x")
