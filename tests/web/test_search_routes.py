"""Search, explanations and images over HTTP, in an application with real worker processes."""

import io
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection
from faemb.features.files.npz import read_npz
from faemb.rerank import EXPANSIONS
from faemb.rerank.vector_expansion import BY_VECTORS
from faemb.web import schema
from faemb.web.describing import Describers
from faemb.web.settings import ServerSettings
from pictures import blank, picture, pixels
from served import serving
from small_collections import NAMES, make_collection, working_here

MISSING = 10**6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five images in `photos`, one of them with a copy, one without features, and their collection."""
    folder = make_collection(tmp_path_factory.mktemp("served"), NAMES)
    shutil.copy(folder / "photos" / "a.png", folder / "photos" / "trip" / "copy.png")
    blank(folder / "photos" / "blank.png")
    with working_here(), Collection.open(folder / "photos.faemb") as photos:
        photos.update()
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with serving(ServerSettings(folder / "photos.faemb", jobs=1)) as client:
        yield client


@pytest.fixture(scope="module")
def ids(client: httpx.Client) -> dict[str, int]:
    return {image["name"]: image["id"] for image in client.get("/api/images").json()["images"]}


def search(
    client: httpx.Client, sent: bytes | None = None, called: str = "query.png", **form: object
) -> httpx.Response:
    files = None if sent is None else {"file": (called, sent)}
    return client.post("/api/search", data={key: str(value) for key, value in form.items()}, files=files)


def png(seed: int) -> bytes:
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels(seed)).save(stream, "PNG")
    return stream.getvalue()


def names(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [hit["name"] for hit in response.json()["hits"]]


def assert_problem(response: httpx.Response, status: int, words: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    content = response.json()
    assert content["status"] == status
    assert words in content["detail"]
    assert content["detail"].endswith(".")
    assert "Traceback" not in response.text


def test_an_image_that_was_sent_finds_its_copies(client, folder):
    response = search(client, (folder / "photos" / "b.png").read_bytes(), "my photo.png", top=2)
    answer = response.json()
    assert names(response)[0] == "b.png"
    first = answer["hits"][0]
    assert (first["copy_of_query"], first["itself"], first["verdict"], first["confidence"]) == (True, False, "same", 1)
    assert first["state"] == "unchanged"
    assert (first["similarity"], first["width"], first["height"]) == (1, 120, 90)
    assert first["folder"] == str(folder / "photos")
    assert len(answer["hits"]) == 2
    assert answer["query"]["name"] == "my photo.png"
    assert answer["query"]["features"] > 0


def test_an_image_of_the_collection_finds_itself_and_its_copy(client, ids):
    answer = search(client, query=f"image-{ids['a.png']}", top=3).json()
    assert answer["hits"][0]["itself"]
    assert [hit["name"] for hit in answer["hits"]][:2] == ["a.png", "copy.png"]
    assert answer["hits"][1]["copy_of_query"]


@pytest.mark.parametrize("box", [None, (0, 0, 60, 45)], ids=["whole", "few features in a box"])
@pytest.mark.parametrize("how", ["sent", "stored"])
def test_the_answer_is_that_of_the_collection(client, folder, ids, how, box):
    file = folder / "photos" / "trip" / "d.png"
    with Collection.open(folder / "photos.faemb") as photos:
        (expected,) = photos.search(file, top=1000, box=box)
    region: dict[str, Any] = {} if box is None else {"box": ",".join(map(str, box))}
    if how == "sent":
        answer = search(client, file.read_bytes(), top=1000, **region).json()
    else:
        answer = search(client, query=f"image-{ids['d.png']}", top=1000, **region).json()
    shown = answer["hits"]
    assert answer["query"]["features"] == expected.features
    assert [hit["name"] for hit in shown] == [hit.path.name for hit in expected.hits]
    assert [hit["similarity"] for hit in shown] == [hit.similarity for hit in expected.hits]
    known = [hit.confidence for hit in expected.hits]
    assert all(
        hit["confidence"] is None if value is None else math.isclose(hit["confidence"], value, abs_tol=1e-4)
        for hit, value in zip(shown, known, strict=True)
    )


def test_a_query_can_be_named_again_and_boxed(client):
    first = search(client, png(3)).json()["query"]
    again = search(client, query=first["key"], box="0,0,60,45").json()["query"]
    assert again["key"] == first["key"]
    assert again["box"] == [0, 0, 60, 45]
    assert 0 < again["features"] < first["features"]


def test_pages_of_an_answer_join_without_gaps(client):
    key = search(client, png(1)).json()["query"]["key"]
    whole = search(client, query=key)
    parts = [search(client, query=key, top=2, offset=offset) for offset in (0, 2, 4, 6, 8)]
    assert [name for part in parts for name in names(part)] == names(whole)
    assert {part.json()["total"] for part in parts} == {len(names(whole))}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"folder": "trip"}, {"d.png", "e.png", "copy.png"}),
        ({"name": "C"}, {"c.jpg", "copy.png"}),
        ({"folder": "trip", "name": "e.PNG"}, {"e.png"}),
        ({"name": "nothing"}, set()),
    ],
    ids=["folder", "name", "both", "neither"],
)
def test_filters_restrict_what_is_searched(client, folder, form, expected):
    if "folder" in form:
        form = form | {"folder": folder / "photos" / form["folder"]}
    assert set(names(search(client, png(0), **form))) == expected
    listed = client.get("/api/images", params={key: str(value) for key, value in form.items()}).json()
    assert {image["name"] for image in listed["images"]} == expected
    assert listed["total"] == len(expected)


def test_a_filter_does_not_change_the_confidence(client, ids):
    query = f"image-{ids['d.png']}"
    (alone,) = search(client, query=query, name="e.png").json()["hits"]
    among_all = {hit["name"]: hit for hit in search(client, query=query).json()["hits"]}
    assert alone == among_all["e.png"]


def test_least_confidence_may_leave_nothing(client):
    assert names(search(client, png(77), least_confidence=0.9)) == []


def test_explanation(client, ids):
    found = client.get(f"/api/explain/image-{ids['a.png']}/{ids['copy.png']}").json()
    assert (found["verdict"], found["similarity"]) == ("same", 1)
    np.testing.assert_allclose(found["transform"], np.eye(3), atol=1e-3)
    agreeing = [pair for pair in found["pairs"] if pair["agrees"]]
    assert len(agreeing) > 5
    assert all(np.allclose(pair["query"], pair["result"]) for pair in agreeing)
    assert len(found["overlap"]) == 2
    assert any("agree with one transform" in reason for reason in found["reasons"])
    assert client.get(found["query"]["picture"]).headers["content-type"] == "image/jpeg"
    assert found["result"]["name"] == "copy.png"


def test_pictures_have_no_metadata(client, folder, ids):
    with PIL.Image.open(folder / "photos" / "c.jpg") as image:
        exif = PIL.Image.Exif()
        exif[0x010E] = "a secret place"
        stream = io.BytesIO()
        image.save(stream, "JPEG", exif=exif)
    key = search(client, stream.getvalue()).json()["query"]["key"]
    assert b"a secret place" in stream.getvalue()
    for address in (
        f"/api/pictures/{key}",
        f"/api/images/{ids['c.jpg']}/thumbnail",
        f"/api/pictures/image-{ids['c.jpg']}",
    ):
        response = client.get(address)
        assert response.headers["content-type"] == "image/jpeg"
        with PIL.Image.open(io.BytesIO(response.content)) as shown:
            assert shown.format == "JPEG"
            assert not shown.getexif()
        assert b"secret" not in response.content


def test_a_file_is_served_as_it_was_indexed_and_only_to_be_saved(client, folder, ids):
    response = client.get(f"/api/images/{ids['b.png']}/file")
    assert response.content == (folder / "photos" / "b.png").read_bytes()
    assert response.headers["content-disposition"] == "attachment"
    assert response.headers["content-type"] == "application/octet-stream"


def test_features_are_those_of_the_collection(client, folder, ids, tmp_path):
    (tmp_path / "b.npz").write_bytes(client.get(f"/api/images/{ids['b.png']}/features").content)
    with Collection.open(folder / "photos.faemb") as photos:
        expected = photos.features(folder / "photos" / "b.png")
    found = read_npz(tmp_path / "b.npz")
    np.testing.assert_array_equal(found.frames, expected.frames)
    np.testing.assert_allclose(found.descriptors, expected.descriptors)


def test_facts(client, folder, ids):
    facts = client.get(f"/api/images/{ids['b.png']}").json()
    assert facts["bytes"] == (folder / "photos" / "b.png").stat().st_size
    assert facts["available"]
    assert facts["features"] > 0


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Iterator[tuple[httpx.Client, Path]]:
    """An application whose images a test may change."""
    shutil.copytree(folder / "photos", tmp_path / "photos")
    shutil.copytree(folder / "photos.faemb", tmp_path / "photos.faemb")
    with serving(ServerSettings(tmp_path / "photos.faemb", jobs=1)) as client:
        yield client, tmp_path / "photos"


def test_a_file_that_has_changed_or_leads_elsewhere_is_not_served(own, ids):
    client, photos = own
    picture(photos / "a.png", 99)
    (photos / "b.png").unlink()
    (photos / "b.png").symlink_to("/etc/passwd")
    (photos / "c.jpg").unlink()
    address = "/api/images/{}/file"
    assert_problem(client.get(address.format(ids["a.png"])), 409, "has changed since it was indexed")
    assert_problem(client.get(address.format(ids["b.png"])), 409, "has changed since it was indexed")
    assert_problem(client.get(address.format(ids["c.jpg"])), 404, "is not there")
    assert names(search(client, query=f"image-{ids['c.jpg']}", top=1)) == ["c.jpg"]  # by its stored features
    assert not client.get(f"/api/images/{ids['c.jpg']}").json()["available"]


def test_an_image_whose_file_has_gone_or_changed_is_shown_by_its_stored_thumbnail(own, ids):
    client, photos = own
    assert "thumbnail" not in " ".join(explained(client, ids["a.png"]))
    picture(photos / "a.png", 99)
    (photos / "b.png").unlink()
    (photos / "b.png").symlink_to("/etc/passwd")
    (photos / "c.jpg").unlink()
    for name, state in (("a.png", "changed since it was"), ("b.png", "changed since it was"), ("c.jpg", "not there")):
        stored = client.get(f"/api/images/{ids[name]}/thumbnail")
        shown = client.get(f"/api/pictures/image-{ids[name]}", params={"v": "0"})
        assert (shown.status_code, shown.content) == (200, stored.content)
        assert shown.headers["Cache-Control"] == "private, no-cache"
        (reason,) = [each for each in explained(client, ids[name]) if "thumbnail" in each]
        assert reason.startswith("The result is shown by its stored thumbnail. The file ")
        assert state in reason


def test_without_a_stored_thumbnail_the_fault_of_the_file_is_said(own, ids):
    client, photos = own
    (photos / "c.jpg").unlink()
    for stored in (photos.parent / "photos.faemb").glob("thumbnails*"):
        stored.unlink()
    assert_problem(client.get(f"/api/pictures/image-{ids['c.jpg']}"), 404, "The file c.jpg is not there")
    (reason,) = [each for each in explained(client, ids["c.jpg"]) if "shown" in each]
    assert reason == "The result is shown without its picture. The file c.jpg is not there, or cannot be read."


def test_an_explanation_says_that_a_file_cannot_be_read(own, ids):
    client, photos = own
    (photos / "a.png").unlink()
    (photos / "a.png").symlink_to("a.png")  # of which nobody can say that it is gone
    (reason,) = [each for each in explained(client, ids["a.png"]) if "shown" in each]
    assert reason == "The result is shown by its stored thumbnail. The file a.png is not there, or cannot be read."


def explained(client: httpx.Client, id: int) -> list[str]:
    return client.get(f"/api/explain/image-{id}/{id}").json()["reasons"]


def test_browsers_keep_only_pictures_whose_address_names_the_content(own, ids):
    client, photos = own
    address = f"/api/images/{ids['a.png']}"
    before = client.get(address).json()["content"]
    for picture_address in (f"{address}/thumbnail", f"/api/pictures/image-{ids['a.png']}"):
        assert client.get(picture_address).headers["Cache-Control"] == "private, no-cache"
        kept = client.get(picture_address, params={"v": before})
        assert kept.headers["Cache-Control"] == "private, max-age=86400"
    picture(photos / "a.png", 99)
    with working_here(), Collection.open(photos.parent / "photos.faemb") as collection:
        collection.update()
    assert client.get(address).json()["content"] != before


def test_changes_by_another_process_are_seen(own, ids):
    client, photos = own
    before = search(client, query=f"image-{ids['a.png']}").json()["total"]
    with working_here(), Collection.open(photos.parent / "photos.faemb") as collection:
        collection.remove(photos / "b.png")
    assert search(client, query=f"image-{ids['a.png']}").json()["total"] == before - 1
    assert_problem(client.get(f"/api/images/{ids['b.png']}"), 404, "There is no image")


def test_every_expansion_of_the_library_is_offered():
    assert get_args(schema.Expansion) == EXPANSIONS


@pytest.mark.parametrize("expand", EXPANSIONS)
def test_expansions(client, folder, ids, expand):
    verify = 0 if expand in BY_VECTORS else 100
    with Collection.open(folder / "photos.faemb") as photos:
        (expected,) = photos.search(folder / "photos" / "a.png", top=1000, verify=verify, expand=expand)
    shown = search(client, query=f"image-{ids['a.png']}", verify=verify, expand=expand).json()["hits"]
    assert [(hit["name"], hit["similarity"]) for hit in shown] == [
        (hit.path.name, hit.similarity) for hit in expected.hits
    ]


def test_expansions_by_vectors_have_conditions(client, ids):
    query = f"image-{ids['a.png']}"
    verified = search(client, query=query, expand="average")
    assert_problem(verified, 422, "Expand 'average' ranks by vectors alone, and verify is 100; set it to 0.")
    turned = search(client, query=query, expand="scaled", verify=0, turned=True)
    assert_problem(turned, 422, "Expand 'scaled' is for queries with one vector; leave turned out.")
    unknown = search(client, query=query, expand="all")
    assert_problem(unknown, 422, "expand is 'all'; expected 'none', 'results', 'average'")


def test_what_cannot_be_asked_is_explained(client, ids):
    assert_problem(search(client), 422, "either a file or a query")
    assert_problem(search(client, png(0), query="image-1"), 422, "either a file or a query")
    assert_problem(search(client, b"no image", "x.jpg"), 422, "x.jpg is not an image")
    assert_problem(search(client, b"", "x.jpg"), 422, "x.jpg")
    assert_problem(search(client, query="image-x"), 422, "expected image-NUMBER")
    assert_problem(search(client, query=f"image-{MISSING}"), 404, "There is no image")
    assert_problem(search(client, query="upload-0123"), 404, "send it again")
    assert_problem(search(client, png(0), box="1,2,3"), 422, "box")
    assert_problem(search(client, png(0), box="500,500,600,600"), 422, "box")
    assert_problem(search(client, png(0), top=0), 422, "top")
    assert_problem(search(client, png(0), expand="results", verify=0), 422, "verify is 0")
    unsure = search(client, png(0), least_confidence=0.9, verify=0)
    assert_problem(
        unsure, 422, "least_confidence needs results with a confidence, and verify is 0; leave one of them out."
    )
    assert_problem(client.get(f"/api/explain/image-{ids['a.png']}/{MISSING}"), 404, "There is no image")
    assert_problem(client.get(f"/api/explain/image-{ids['a.png']}/{ids['blank.png']}"), 422, "no local features")
    nothing = client.get(f"/api/explain/image-{ids['blank.png']}/{ids['a.png']}")
    assert_problem(
        nothing,
        422,
        "has no local features, so there is nothing to explain; give a larger or more detailed picture.",
    )
    assert_problem(client.get("/api/pictures/image-%2e%2e"), 422, "expected image-NUMBER")
    assert_problem(client.get("/api/nothing"), 404, "There is nothing at this address")


def test_a_query_that_lies_on_its_side(client, folder, ids):
    stream = io.BytesIO()
    PIL.Image.open(folder / "photos" / "a.png").rotate(90, expand=True).save(stream, "PNG")
    plain = search(client, stream.getvalue()).json()
    turned = search(client, query=plain["query"]["key"], turned=True).json()
    before, after = ({hit["name"]: hit["similarity"] for hit in answer["hits"]} for answer in (plain, turned))
    assert after["a.png"] > before["a.png"] + 0.3
    assert search(client, query=plain["query"]["key"]).json()["hits"] == plain["hits"]  # another answer, kept by itself
    address = f"/api/explain/{plain['query']['key']}/{ids['a.png']}"
    assert client.get(address).json()["similarity"] == before["a.png"]
    assert client.get(address, params={"turned": True}).json()["similarity"] == after["a.png"]


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What workers were asked to describe."""
    asked: list[tuple[Any, ...]] = []
    features = Describers.features

    def noted(self: Describers, file: Path, box: Any = None, *, turned: bool = False) -> Any:
        asked.append((box, turned))
        return features(self, file, box, turned=turned)

    monkeypatch.setattr(Describers, "features", noted)
    return asked


@pytest.mark.parametrize("how", ["sent", "stored"])
def test_a_turned_query_is_described_once(own, ids, described, how):
    """For all pages of its answer, and for explanations."""
    client, photos = own
    key = f"image-{ids['a.png']}"
    if how == "sent":
        key = search(client, (photos / "a.png").read_bytes()).json()["query"]["key"]
        described.clear()
    pages = [search(client, query=key, turned=True, top=2, offset=offset).json() for offset in (0, 2, 4)]
    whole = search(client, query=key, turned=True).json()
    assert [hit for page in pages for hit in page["hits"]] == whole["hits"][:6]
    address = f"/api/explain/{key}/{ids['b.png']}"
    (found,) = [hit for hit in whole["hits"] if hit["name"] == "b.png"]
    assert client.get(address, params={"turned": True}).json()["similarity"] == found["similarity"]
    assert described == [(None, True)]
    boxed = search(client, query=key, turned=True, box="0,0,110,80").json()
    assert boxed["query"]["box"] == [0, 0, 110, 80]
    assert described == [(None, True), ((0, 0, 110, 80), True)]


def test_a_box_without_features_is_told_by_its_explanation(client, ids):
    told = client.get(f"/api/explain/image-{ids['a.png']}/{ids['b.png']}", params={"box": "0,0,3,3"})
    assert_problem(told, 422, "has no local features in the box, so there is nothing to explain")


def test_a_query_without_features_has_no_hits(client, tmp_path):
    answer = search(client, blank(tmp_path / "plain.png").read_bytes()).json()
    assert (answer["hits"], answer["query"]["features"]) == ([], 0)


def test_an_image_without_features_as_a_query(client, ids):
    answer = search(client, query=f"image-{ids['blank.png']}").json()
    assert (answer["hits"], answer["query"]["features"]) == ([], 0)


@pytest.mark.parametrize(
    ("method", "path", "sentence"),
    [
        ("GET", "/api/images/1_0", "id is '1_0'; expected the number of an image."),
        ("GET", "/api/images/1.0", "id is '1.0'; expected the number of an image."),
        ("GET", "/api/explain/image-1/%2B1", "id is '+1'; expected the number of an image."),
        ("GET", "/api/images?since=1999", "since is '1999'; expected a day such as 2024-12-31."),
        ("GET", "/api/images?limit=0", "limit is '0'; expected 1 or more."),
        ("GET", "/api/images?limit=x", "limit is 'x'; expected a whole number."),
        ("GET", "/api/images?order=size", "order is 'size'; expected 'name' or 'date'."),
        ("GET", "/nothing", "There is nothing at this address; /api describes what can be asked for."),
        ("PUT", "/api/info", "PUT cannot be used at this address; it takes GET."),
        ("PATCH", "/api/images/1", "PATCH cannot be used at this address; it takes DELETE, GET."),
    ],
)
def test_errors_are_in_words_of_this_server(client, method, path, sentence):
    assert client.request(method, path).json()["detail"] == sentence


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("least_confidence", "nan", "least_confidence is 'nan'; expected a number."),
        ("least_confidence", "2", "least_confidence is '2'; expected 1 or less."),
        (
            "box",
            "nan,0,9,9",
            "The box 'nan,0,9,9' cannot be read; expected x1,y1,x2,y2 in pixels, such as 10,20,300,240.",
        ),
    ],
)
def test_errors_in_a_form_are_in_words_of_this_server(client, field, value, sentence):
    answer = client.post("/api/search", data={"query": "image-1", field: value})
    assert (answer.status_code, answer.json()["detail"]) == (422, sentence)


def test_a_body_of_another_kind_is_explained(client):
    sent = client.post("/api/search", json={"query": "image-1"})
    assert_problem(sent, 422, "Give either a file or a query, as a field of a form")
    sent = client.post("/api/search", data={"file": "hello"})
    assert_problem(sent, 422, "file is text; expected a file.")


def test_a_photograph_sent_again_has_the_name_it_is_sent_by(client, folder):
    content = (folder / "photos" / "a.png").read_bytes()
    keys = set()
    for name in ("first.png", "second.png"):
        asked = client.post("/api/search", files={"file": (name, content)}).json()["query"]
        again = client.post("/api/search", data={"query": asked["key"]}).json()["query"]
        assert (asked["name"], again["name"]) == (name, name)
        keys.add(asked["key"])
    assert len(keys) == 1
