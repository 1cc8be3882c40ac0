"""Files of the collection that are gone or have changed since they were indexed: nothing else is described or shown."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import PIL.Image
import pytest

from faemb import Encoder, FastFAemb, Projection, Whitening
from faemb.collection import Collection, Model
from faemb.features import HessianAffine
from faemb.features.feature_files import FeatureFiles
from faemb.features.job import extract_folder
from faemb.web.settings import ServerSettings
from pictures import blank, picture, pixels
from processes import one_after_the_other
from served import serving
from small_collections import make_collection, working_here
from writable_server import problem

SMALL = "small.png"
"""An image with few features, which is described at twice its size as well."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_collection(tmp_path_factory.mktemp("changed"), ["a.png", "b.png", "c.jpg"])
    shutil.copy(folder / "photos" / "a.png", folder / "photos" / "copy.png")
    PIL.Image.fromarray(pixels(4)[:70, :90]).save(folder / "photos" / SMALL)
    with working_here(), Collection.open(folder / "photos.faemb") as photos:
        photos.update()
    return folder


@pytest.fixture
def photos(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder / "photos", tmp_path / "photos")
    shutil.copytree(folder / "photos.faemb", tmp_path / "photos.faemb")
    return tmp_path / "photos"


@pytest.fixture
def client(photos: Path) -> Iterator[httpx.Client]:
    with serving(ServerSettings(photos.with_name("photos.faemb"), jobs=1)) as client:
        yield client


def ids(client: httpx.Client) -> dict[str, int]:
    return {image["name"]: image["id"] for image in client.get("/api/images").json()["images"]}


def asked(client: httpx.Client, name: str, **form: object) -> httpx.Response:
    fields = {key: str(value) for key, value in form.items()}
    return client.post("/api/search", data={"query": f"image-{ids(client)[name]}", **fields})


def hits(client: httpx.Client, name: str, **form: object) -> Any:
    """Without what is seen of the files now."""
    answer = asked(client, name, **form)
    assert answer.status_code == 200, answer.text
    return [hit | {"state": None} for hit in answer.json()["hits"]]


def explained(client: httpx.Client, query: str, result: str) -> Any:
    number = ids(client)
    answer = client.get(f"/api/explain/image-{number[query]}/{number[result]}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def overwrite(photos: Path, name: str, by: str) -> None:
    shutil.copyfile(photos / by, photos / name)


def test_a_query_is_the_image_that_was_indexed(client, photos):
    """By its stored features, and its copies are those of its content when it was indexed."""
    before = hits(client, "a.png", verify=2)
    overwrite(photos, "a.png", "b.png")
    after = hits(client, "a.png", verify=3)  # another answer than that which is kept
    assert [hit["name"] for hit in after][:2] == ["a.png", "copy.png"]
    assert (after[0]["itself"], after[0]["confidence"]) == (True, 1)
    assert [hit["name"] for hit in after if hit["copy_of_query"]] == ["copy.png"]
    assert {hit["name"]: hit["similarity"] for hit in before} == {hit["name"]: hit["similarity"] for hit in after}


def test_a_small_query_whose_file_has_changed_has_its_stored_features_alone(client, photos):
    enlarged = asked(client, SMALL).json()
    with serving(ServerSettings(photos.with_name("photos.faemb"), jobs=1)) as another:
        overwrite(photos, SMALL, "b.png")
        plain = asked(another, SMALL).json()
    assert 0 < plain["query"]["features"] < enlarged["query"]["features"]
    assert (plain["hits"][0]["name"], plain["hits"][0]["similarity"]) == (SMALL, 1)
    assert not any(hit["copy_of_query"] for hit in plain["hits"])


def test_an_explanation_calls_no_other_file_a_copy(client, photos):
    before = explained(client, "a.png", "b.png")
    overwrite(photos, "a.png", "b.png")
    assert explained(client, "a.png", "b.png") == before
    assert not any("same bytes" in reason for reason in before["reasons"])
    assert any("same bytes" in reason for reason in explained(client, "a.png", "copy.png")["reasons"])


@pytest.mark.parametrize("box", ["", "0,0,110,80"], ids=["whole", "in a box"])
def test_a_file_that_has_changed_or_gone_is_not_turned(client, photos, box):
    overwrite(photos, "a.png", "b.png")
    (photos / "c.jpg").unlink()
    address = f"/api/explain/image-{ids(client)['a.png']}/{ids(client)['b.png']}"
    form = {"turned": True, **({"box": box} if box else {})}
    for answer in (asked(client, "a.png", **form), client.get(address, params=form)):
        assert problem(answer, 409) == "The file a.png has changed since it was indexed; run faemb update."
    gone = asked(client, "c.jpg", **form)
    assert problem(gone, 404) == "The file c.jpg is not there, or cannot be read."


def test_a_turned_query_keeps_its_stored_features(client, photos):
    plain, turned = (asked(client, "a.png", turned=each).json() for each in (False, True))
    assert turned["query"]["features"] == plain["query"]["features"]
    (one,), (other,) = ([hit for hit in each["hits"] if hit["itself"]] for each in (plain, turned))
    assert one == other


def test_a_plain_request_gets_no_answer_that_was_made_from_another_file(client, photos):
    """A picture without features has none when it is turned, either."""
    blank(photos / "a.png")
    asked(client, "a.png", turned=True)
    assert hits(client, "a.png")[0]["name"] == "a.png"


def test_a_box_with_few_features_is_described_from_the_file_only_while_that_is_the_same(client, photos):
    box = "0,0,60,45"
    enlarged = asked(client, "a.png", box=box).json()["query"]["features"]
    with serving(ServerSettings(photos.with_name("photos.faemb"), jobs=1)) as another:
        overwrite(photos, "a.png", "b.png")
        plain = asked(another, "a.png", box=box).json()["query"]["features"]
    assert 0 < plain < enlarged


def forget_thumbnails(photos: Path) -> None:
    for stored in photos.with_name("photos.faemb").glob("thumbnails*"):
        stored.unlink()


def test_no_other_picture_is_shown_where_no_thumbnail_is_stored(client, photos, tmp_path):
    private = picture(tmp_path / "private.png", 90)
    forget_thumbnails(photos)
    number = ids(client)
    assert client.get(f"/api/images/{number['a.png']}/thumbnail").headers["content-type"] == "image/jpeg"
    (photos / "a.png").unlink()
    (photos / "a.png").symlink_to(private)
    (photos / "c.jpg").unlink()
    for address in ("/api/images/{}/thumbnail", "/api/pictures/image-{}"):
        changed = client.get(address.format(number["a.png"]))
        assert problem(changed, 409) == "The file a.png has changed since it was indexed; run faemb update."
        gone = client.get(address.format(number["c.jpg"]))
        assert problem(gone, 404) == "The file c.jpg is not there, or cannot be read."


def test_no_other_picture_is_shown_beside_a_file_of_features(tmp_path, in_this_process, monkeypatch):
    """Files that `faemb features` writes state the hash of their image; those of other tools do not."""
    photos = tmp_path / "photos"
    extractor = HessianAffine(max_features=40)
    for seed, name in enumerate(("a.png", "b.png", "c.png")):
        picture(photos / name, seed)
    monkeypatch.setattr("faemb.features.job.spread", one_after_the_other)
    extract_folder(photos, photos, extractor)
    files = sorted(photos.glob("*.npz"))
    reader = FeatureFiles.of(files)
    encoder = Encoder(FastFAemb(2, unit_residuals=True), projection=Projection(8), whitening=Whitening(), pooling="sum")
    model = Model(reader, encoder).fit([reader.extract(file).descriptors for file in files])
    with Collection.create(tmp_path / "photos.faemb", model) as made:
        made.add(photos)
    forget_thumbnails(photos)
    with serving(ServerSettings(tmp_path / "photos.faemb", jobs=1)) as client:
        address = f"/api/pictures/image-{ids(client)['a.png.npz']}"
        assert client.get(address).headers["content-type"] == "image/jpeg"
        picture(photos / "a.png", 90)
        assert "a.png has changed since it was indexed" in problem(client.get(address), 409)
        (photos / "a.png").unlink()
        assert "No image is beside the file of features a.png.npz." in problem(client.get(address), 404)
