"""The demo: its pictures, the photographs of them, and that a small run measures what it says."""

import socket
import sys
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest

from faemb import Encoder, Extractor, FastFAemb, Projection, Whitening
from faemb.collection import Answer, Collection, Hit, Model
from faemb.demo import lamp_light, photographs, pictures, prints, render_views, run, run_demo
from faemb.demo.run import NOTE, precision
from faemb.demo.views import CAMERAS, FRAMES, HEIGHT, WIDTH, Camera, framed, photograph, with_visitor
from faemb.errors import FaembError, InputError
from small_collections import work_here

VIEWS = ["original", *CAMERAS]


def small_model(extractor: Extractor) -> Model:
    projection = Projection(16, unit_after=True)
    return Model(extractor, Encoder(FastFAemb(2, unit_residuals=True), projection=projection, whitening=Whitening()))


@pytest.fixture
def quick(monkeypatch):
    """Fewer features, a smaller encoder, for which there are enough, and no worker processes."""
    work_here(monkeypatch)
    monkeypatch.setattr(run, "FEATURES", 200)
    monkeypatch.setattr(run, "new_model", small_model)


@pytest.fixture(scope="module")
def drawn() -> dict[str, np.ndarray]:
    return pictures()


@pytest.fixture
def noise(rng):
    return rng.integers(0, 256, (60, 90, 3), np.uint8)


def no_network(*_):
    raise AssertionError("the demo has opened a connection")


def pixels_of(path: Path) -> np.ndarray:
    with PIL.Image.open(path) as image:
        assert image.format == "JPEG"
        return np.asarray(image).astype(int)


# Pictures.


def test_a_dozen_pictures_of_one_size_the_photographs_first(drawn):
    assert len(drawn) == 12
    assert list(drawn)[:2] == list(photographs()) == ["palace", "flower"]
    assert {(pixels.shape, pixels.dtype) for pixels in drawn.values()} == {((427, 640, 3), np.dtype(np.uint8))}


def test_pictures_are_the_same_each_time_and_need_no_optional_package(drawn, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", no_network)
    for package in ("skimage", "matplotlib", "faiss", "h5py", "onnxruntime"):
        monkeypatch.setitem(sys.modules, package, None)
    again = pictures()
    assert list(again) == list(drawn)
    for name, pixels in again.items():
        np.testing.assert_array_equal(pixels, drawn[name])


def test_every_picture_has_details(drawn):
    """Standard deviation of the Laplacian, which is about 2 for a clear sky."""
    for pixels in drawn.values():
        assert cv2.Laplacian(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F).std() > 5


def test_without_the_photographs_the_cure_is_told(monkeypatch):
    monkeypatch.setattr(prints, "find_spec", lambda name: None)
    with pytest.raises(FaembError, match="pip install --force-reinstall scikit-learn"):
        photographs()


# Photographs of them.


def test_photographs_are_written_by_name_and_are_the_same_each_time(tmp_path, noise):
    shown = {"a": noise, "b": np.ascontiguousarray(noise[::-1])}
    groups = render_views(tmp_path / "one", shown)
    assert groups == [[tmp_path / "one" / name / f"{view}.jpg" for view in VIEWS] for name in shown]
    for (original, *views), pixels in zip(groups, shown.values(), strict=True):
        assert pixels_of(original).shape == pixels.shape
        assert {pixels_of(view).shape for view in views} == {(HEIGHT, WIDTH, 3)}
    again = render_views(tmp_path / "two", shown)
    first, second = ([path.read_bytes() for group in each for path in group] for each in (groups, again))
    assert first == second


def projected(camera: Camera, x: float, y: float) -> np.ndarray:
    """A point of the picture turned about each axis in its turn, then seen through a pinhole: the book's formulas."""
    yaw, pitch, roll = np.radians([camera.yaw, camera.pitch, camera.roll])
    x, y, z = x - camera.aim[0], y - camera.aim[1], 0.0
    x, z = x * np.cos(yaw) + z * np.sin(yaw), -x * np.sin(yaw) + z * np.cos(yaw)
    y, z = y * np.cos(pitch) - z * np.sin(pitch), y * np.sin(pitch) + z * np.cos(pitch)
    x, y = x * np.cos(roll) - y * np.sin(roll), x * np.sin(roll) + y * np.cos(roll)
    depth = z + camera.distance
    return np.array([WIDTH / 2 + 620 * x / depth, HEIGHT / 2 + 620 * y / depth])


@pytest.mark.parametrize("name", CAMERAS)
def test_cameras_by_the_book(name):
    camera = CAMERAS[name]
    for x, y in ((0, 0), (-320, 213), (320, -213), (50, 100)):
        seen = camera.homography() @ (x, y, 1)
        np.testing.assert_allclose(seen[:2] / seen[2], projected(camera, x, y), atol=1e-6)


def test_the_middle_picture_is_in_the_middle_and_its_neighbours_beside_it(rng):
    red, green, blue = (
        framed(np.full((427, 640, 3), colour, np.uint8), FRAMES[0]) for colour in np.eye(3, dtype=np.uint8) * 255
    )
    seen = photograph([red, green, blue], Camera(distance=2600), rng).astype(int)
    assert [int(seen[HEIGHT // 2, x].argmax()) for x in (100, WIDTH // 2, WIDTH - 100)] == [0, 1, 2]
    assert np.ptp(seen[5, WIDTH // 2]) < 60  # the wall above them


def test_lamp_light_is_warm_and_dark_at_the_edges():
    lit = lamp_light(np.full((60, 90, 3), 200, np.uint8)).astype(int)
    assert (lit[..., 0] > lit[..., 2]).all()
    assert lit[59, 0].max() < 90 < lit[20, 50].max()


def test_a_visitor_hides_a_part(rng):
    white = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    hidden = (with_visitor(white, rng) < 128).all(axis=2).mean()
    assert 0.08 < hidden < 0.25


# Measuring.


def answer_of(*names: str) -> Answer:
    return Answer("q", 5, [Hit(Path(name), 0.5) for name in names])


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [("qab", 1.0), ("abq", 1.0), ("qaxb", (1 + (1 / 2 + 2 / 3) / 2) / 2), ("qxa", (0 + 1 / 2) / 2 / 2), ("qx", 0.0)],
)
def test_precision_drops_the_query_and_counts_what_is_missing(ranking, expected):
    """Two relevant images, a and b; the trapezoids are written out."""
    assert precision(answer_of(*ranking), [Path("q"), Path("a"), Path("b")]) == pytest.approx(expected)


def test_a_small_demo_runs_and_runs_again(quick, drawn, tmp_path):
    shown = {name: drawn[name] for name in ("palace", "flower", "window")}
    out, calls = tmp_path / "new" / "demo", []
    first = run_demo(out, lambda *step: calls.append(step), 1, shown=shown)
    assert (first.scenes, first.images) == (3, 24)
    assert 60 < first.mean_average_precision <= 100
    assert first.page == out / "demo.html"
    assert NOTE in str(first)
    assert calls[-1] == ("search", 3, 3)
    with Collection.open(first.collection) as collection:
        assert len(collection) == 24
    page = first.page.read_text(encoding="utf-8")
    assert NOTE in page
    assert page.count("<h2>") == 3
    assert f"mAP {first.mean_average_precision:.1f}" in page
    again = run_demo(out, jobs=1, shown=dict(list(shown.items())[:1]))
    assert (again.scenes, again.images) == (1, 8)
    assert {path.name for path in out.iterdir()} == {"about.txt", "images", "demo.faemb", "demo.html"}


@pytest.mark.parametrize("name", ["folder", "file"])
def test_what_the_demo_has_not_made_is_left_alone(tmp_path, noise, name):
    (tmp_path / "folder" / "images").mkdir(parents=True)
    (tmp_path / "folder" / "images" / "mine.jpg").write_bytes(b"mine")
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InputError, match="was not made by the demo; give a new folder"):
        run_demo(tmp_path / name, shown={"a": noise})
    assert (tmp_path / "folder" / "images" / "mine.jpg").read_bytes() == (tmp_path / "file").read_bytes() == b"mine"
    assert len(list(tmp_path.rglob("*"))) == 4
