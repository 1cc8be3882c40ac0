"""The demo: which photographs it finds, what their views are, and that a small run measures what it says."""

import socket
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import PIL.Image
import pytest

from faemb import Encoder, FastFAemb, Projection, Whitening, demo
from faemb.collection import Answer, Collection, Hit
from faemb.demo import (
    NOTE,
    crop,
    installed_photographs,
    light,
    perspective,
    precision,
    render_views,
    run_demo,
    sample,
    tiles,
)
from faemb.errors import InputError, MissingExtraError

VIEWS = ["original", "perspective", "crop", "half-size", "blur", "light", "quality-30"]


@pytest.fixture
def only_core(monkeypatch):
    """As if scikit-image were not installed."""
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "skimage" else find_spec(name))


def small_encoder(name: str) -> Encoder:
    projection = Projection(8, unit_after=True)
    return Encoder(FastFAemb(4, unit_residuals=True), projection=projection, whitening=Whitening())


@pytest.fixture
def quick(monkeypatch):
    """Few features, and a small encoder in place of the preset, whose whitening takes long to learn."""
    monkeypatch.setattr(demo, "FEATURES", 80)
    monkeypatch.setattr(demo, "preset", small_encoder)


@pytest.fixture
def noise(rng):
    return rng.integers(0, 256, (60, 90, 3), np.uint8)


def no_network(*_):
    raise AssertionError("the demo has opened a connection")


def pixels_of(path: Path) -> np.ndarray:
    with PIL.Image.open(path) as image:
        assert image.format == "JPEG"
        return np.asarray(image).astype(int)


# Photographs.


def test_the_photographs_of_scikit_learn_make_at_least_twelve_scenes(only_core):
    found = installed_photographs()
    assert list(found) == [f"palace-{number:02d}" for number in range(1, 13)] + ["flower"]
    assert all(pixels.dtype == np.uint8 for pixels in found.values())
    assert all(min(pixels.shape[:2]) > 300 for pixels in found.values())


def test_photographs_are_found_without_a_network(monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", no_network)
    assert len(installed_photographs()) >= 13


def test_without_any_photograph_the_cure_is_told(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "faemb\[demo\]"'):
        installed_photographs()


def test_files_that_a_package_does_not_hold_are_passed_over(monkeypatch, tmp_path):
    """Older and newer versions of scikit-image hold others, and would download these."""

    def spec(name):
        return SimpleNamespace(submodule_search_locations=[str(tmp_path)]) if name == "skimage" else find_spec(name)

    monkeypatch.setattr(demo, "find_spec", spec)
    (tmp_path / "data").mkdir()
    PIL.Image.new("L", (900, 400), 90).save(tmp_path / "data" / "coins.png")
    name, pixels = list(installed_photographs().items())[-1]
    assert name == "coins"
    assert pixels.shape == (284, 640, 3)


def test_tiles_do_not_overlap_and_show_something(rng):
    """Sixteen tiles of noise, each with its own mean; the first two have one colour."""
    levels = np.arange(16).reshape(4, 4) * 10 + 40
    picture = np.kron(levels, np.ones((20, 30), int))[:, :, None] + rng.integers(0, 40, (80, 120, 3))
    picture[:20, :60] = 50
    cut = tiles("wall", picture.astype(np.uint8))
    assert list(cut) == [f"wall-{number:02d}" for number in range(1, 15)]
    assert {part.shape for part in cut.values()} == {(60, 90, 3)}
    np.testing.assert_allclose([part.mean() for part in cut.values()], levels.ravel()[2:] + 19.5, atol=2)


# Views.


def test_views_are_written_by_name_and_have_their_sizes(only_core, tmp_path):
    photographs = installed_photographs()
    groups = render_views(tmp_path, photographs)
    assert len(groups) == len(photographs) == 13
    for (name, pixels), group in zip(photographs.items(), groups, strict=True):
        assert group == [tmp_path / name / f"{view}.jpg" for view in VIEWS]
        height, width = pixels.shape[:2]
        sizes = dict(zip(VIEWS, (pixels_of(path).shape for path in group), strict=True))
        assert sizes.pop("crop") == (height * 2 // 3, width * 2 // 3, 3)
        assert np.abs(np.subtract(sizes.pop("half-size"), (height / 2, width / 2, 3))).max() <= 0.5
        assert set(sizes.values()) == {(height, width, 3)}
    assert len(list(tmp_path.rglob("*.jpg"))) == 13 * 7


def test_the_same_seed_gives_the_same_files_and_another_one_does_not(tmp_path, noise):
    photographs = {"a": noise, "b": noise}
    first, again, other = (
        {path.relative_to(tmp_path / name): path.read_bytes() for group in groups for path in group}
        for name, groups in (
            (name, render_views(tmp_path / name, photographs, seed))
            for name, seed in (("first", 3), ("again", 3), ("other", 4))
        )
    )
    assert first == again
    moved = {path.stem for path in first if first[path] != other[path]}
    assert moved == {"perspective", "crop"}
    assert first[Path("a/crop.jpg")] != first[Path("b/crop.jpg")]


def test_rendering_again_replaces_the_files(tmp_path, noise):
    before = render_views(tmp_path, {"a": noise})
    after = render_views(tmp_path, {"a": np.full_like(noise, 200)})
    assert before == after
    assert len(list(tmp_path.rglob("*"))) == 1 + len(VIEWS)
    np.testing.assert_allclose(pixels_of(after[0][0]), 200, atol=2)


def test_a_crop_is_a_part_of_its_photograph(noise, rng):
    part = crop(noise, rng)
    assert part.shape == (40, 60, 3)
    places = [(y, x) for y in range(21) for x in range(31) if (noise[y : y + 40, x : x + 60] == part).all()]
    assert len(places) == 1


def test_light_by_the_book(noise):
    dim = light(noise)
    for y, x, channel in [(0, 0, 0), (10, 20, 1), (59, 89, 2)]:
        expected = 255 * (noise[y, x, channel] / 255) ** 1.5 * (0.9, 0.8, 0.65)[channel]
        assert abs(dim[y, x, channel] - expected) <= 0.5 + 1e-9


def test_a_perspective_keeps_inside_the_photograph(rng):
    """Nothing but the photograph is seen: a white one stays white, and each corner shows a place near its own."""
    assert (perspective(np.full((60, 90, 3), 255, np.uint8), rng) == 255).all()
    x, y = np.meshgrid(np.linspace(0, 255, 90), np.linspace(0, 255, 60))
    ramps = np.rint(np.stack([x, y, 0 * x], axis=2)).astype(np.uint8)
    view = perspective(ramps, rng).astype(int)
    for corner, (right, down) in {(0, 0): (0, 0), (0, -1): (255, 0), (-1, -1): (255, 255), (-1, 0): (0, 255)}.items():
        distance = np.abs(view[corner][:2] - (right, down))
        assert (distance <= 0.16 * 255 + 2).all()
    assert np.abs(view - ramps).max() > 2


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


@pytest.mark.parametrize(
    ("scores", "count", "expected"),
    [
        ([3, 1, 2, 4, 5, 6], 3, [1, 0, 5]),
        ([5, 5, 5, 5], 2, [0, 3]),
        ([2, 1], 6, [1, 0]),
        ([7], 6, [0]),
    ],
)
def test_a_sample_is_spread_from_the_worst_to_the_best(scores, count, expected):
    assert sample(scores, count) == expected


def test_a_small_demo_runs_and_runs_again(quick, only_core, tmp_path):
    photographs = {name: pixels[::2, ::2].copy() for name, pixels in list(installed_photographs().items())[4:7]}
    out, calls = tmp_path / "new" / "demo", []
    first = run_demo(out, lambda *step: calls.append(step), 1, photographs=photographs)
    assert (first.scenes, first.images) == (3, 21)
    assert 50 < first.mean_average_precision <= 100
    assert first.page == out / "demo.html"
    assert NOTE in str(first)
    assert calls[-1] == ("search", 3, 3)
    with Collection.open(first.collection) as collection:
        assert len(collection) == 21
    page = first.page.read_text(encoding="utf-8")
    assert NOTE in page
    assert page.count("<h2>") == 3
    assert f"mAP {first.mean_average_precision:.1f}" in page
    again = run_demo(out, jobs=1, photographs=dict(list(photographs.items())[:2]))
    assert (again.scenes, again.images) == (2, 14)
    assert {path.name for path in out.iterdir()} == {"about.txt", "images", "demo.faemb", "demo.html"}


@pytest.mark.parametrize("name", ["folder", "file"])
def test_what_the_demo_has_not_made_is_left_alone(tmp_path, noise, name):
    (tmp_path / "folder" / "images").mkdir(parents=True)
    (tmp_path / "folder" / "images" / "mine.jpg").write_bytes(b"mine")
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InputError, match="was not made by the demo; give a new folder"):
        run_demo(tmp_path / name, photographs={"a": noise})
    assert (tmp_path / "folder" / "images" / "mine.jpg").read_bytes() == (tmp_path / "file").read_bytes() == b"mine"
    assert len(list(tmp_path.rglob("*"))) == 4
