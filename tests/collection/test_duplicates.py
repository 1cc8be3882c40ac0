"""Groups of images that show the same: how pairs become groups, and that edits of an image are found."""

import io
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection, Group, Model, duplicates
from faemb.collection.backends import HNSW
from faemb.collection.components import connected
from faemb.collection.copy_links import MANY, believed
from faemb.collection.duplicates import (
    THRESHOLD,
    THRESHOLD_OF_SHORT,
    Limits,
    Members,
    default_threshold,
    grouped,
    linked,
)
from faemb.collection.layout import Layout
from faemb.collection.pairs import Pair, PairJudge
from faemb.collection.reading import View
from faemb.embedding import FastFAemb
from faemb.encoder import Encoder
from faemb.errors import InputError
from faemb.features import HessianAffine
from faemb.projection import Projection
from faemb.whitening import Whitening
from pictures import blank, pictures
from small_collections import damage_vector, new_tiny_model, tiny_model, working_here

# Images become pairs


def view_of(folder: Path, vectors: np.ndarray, dead: tuple[int, ...] = ()) -> View:
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    slots = np.setdiff1d(np.arange(len(vectors)), dead)
    return View(Layout(folder), tiny_model(), 1, slots, slots, vectors)


def pairs_by_the_book(view: View, threshold: float) -> set[tuple[int, int]]:
    live = view.vectors[view.slots]
    similarity = np.round(live @ live.T, 5)
    return {(i, j) for i in range(len(live)) for j in range(i + 1, len(live)) if similarity[i, j] >= threshold}


def links(view: View, threshold: float, kind=None, few=(), calls=lambda *call: None, of_nearest=None):
    """`few` are the places of images with few features."""
    limits = Limits(threshold, threshold if of_nearest is None else of_nearest)
    return linked(view, np.isin(np.arange(len(view.slots)), few), limits, kind, calls)


def found_pairs(view: View, threshold: float, kind=None, few=()) -> set[tuple[int, int]]:
    return {(a, b) for a, b, _ in links(view, threshold, kind, few)}


@pytest.mark.parametrize("threshold", [-1, 0.2, 0.5, 1])
@pytest.mark.parametrize("block", [3, 256])
def test_every_pair_that_is_similar_enough(rng, tmp_path, monkeypatch, threshold, block):
    monkeypatch.setattr(duplicates, "_BLOCK", block)
    view = view_of(tmp_path, rng.standard_normal((25, 4)), dead=(0, 7, 24))
    assert found_pairs(view, threshold) == pairs_by_the_book(view, threshold)


def test_the_nearest_images_have_a_limit_of_their_own(rng, tmp_path):
    view = view_of(tmp_path, rng.standard_normal((40, 4)))
    vectors = np.asarray(view.vectors)
    similarity = np.round(vectors @ vectors.T, 5) - 2 * np.eye(40)
    nearest = {(min(i, j), max(i, j)) for i in range(40) for j in map(int, np.argsort(-similarity[i])[:3])}
    expected = {pair for pair in nearest if similarity[pair] >= 0.2} | pairs_by_the_book(view, 0.9)
    assert {(a, b) for a, b, _ in links(view, 0.9, of_nearest=0.2)} == expected > pairs_by_the_book(view, 0.9)


def test_an_approximate_index_finds_the_same_few(rng, tmp_path):
    pytest.importorskip("faiss")
    view = view_of(tmp_path, rng.standard_normal((25, 4)), dead=(3,))
    assert found_pairs(view, 0.5, HNSW) == pairs_by_the_book(view, 0.5)


def test_a_group_larger_than_the_neighbours_that_are_looked_at(tmp_path):
    """Each image is compared with 32 others only."""
    view = view_of(tmp_path, np.ones((100, 4)))
    assert joined(view, 0.9) == [Members(list(range(100)), 1, 1, all_pairs=True, kind="similar")]


@pytest.mark.parametrize("few", [(), (0,), (1,), (0, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("threshold", [-1, 0.5, 0.97])
def test_an_image_with_few_features_is_linked_to_its_copies_only(tmp_path, few, threshold):
    """The first two are alike, the last two are copies."""
    view = view_of(tmp_path, np.array([[1, 0.5, 0], [1, -0.5, 0], [0, 0, 1], [0, 0, 1.0]]))
    expected = {(a, b) for a, b in pairs_by_the_book(view, threshold) if (a, b) == (2, 3) or not {a, b} & set(few)}
    assert found_pairs(view, threshold, few=few) == expected


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_images_to_be_similar(tmp_path, count):
    assert found_pairs(view_of(tmp_path, np.ones((count, 4))), -1) == set()


def test_progress(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(duplicates, "_BLOCK", 10)
    calls: list[tuple[str, int, int]] = []
    list(links(view_of(tmp_path, rng.standard_normal((25, 4))), 0.5, calls=lambda *call: calls.append(call)))
    assert calls == [("duplicates", done, 25) for done in (0, 10, 20, 25)]


# Pairs become groups


def joined(view: View, threshold: float) -> list[Members]:
    return grouped(view, {(a, b): score for a, b, score in links(view, threshold)}, threshold)


def angles(*degrees: float) -> np.ndarray:
    """Unit vectors in a plane: the similarity of two is the cosine of the angle between them."""
    return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)


def groups_by_the_book(similarity: np.ndarray, threshold: float) -> list[list[int]]:
    """Every pair in order of similarity, and the mean over all pairs of two groups as a double loop."""
    groups = [[place] for place in range(len(similarity))]
    pairs = [(-similarity[i, j], i, j) for i in range(len(groups)) for j in range(i + 1, len(groups))]
    for score, i, j in sorted(pairs):
        one, other = (next(group for group in groups if place in group) for place in (i, j))
        if -score < threshold or one is other:
            continue
        if np.mean([similarity[a, b] for a in one for b in other]) >= 0.75 * threshold:
            groups = [group for group in groups if group is not one and group is not other] + [one + other]
    return sorted(sorted(group) for group in groups if len(group) > 1)


def test_no_links_are_no_groups(tmp_path):
    assert grouped(view_of(tmp_path, np.eye(3)), {}, 0.3) == []


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(5))
def test_groups_by_the_book(tmp_path, threshold, seed):
    view = view_of(tmp_path, np.random.default_rng(seed).standard_normal((25, 3)), dead=(0, 7))
    live = view.vectors[view.slots].astype(float)
    similarity = np.round(live @ live.T, 5)
    found = joined(view, threshold)
    assert sorted(group.positions for group in found) == groups_by_the_book(similarity, threshold)
    for group in found:
        pairs = [similarity[i, j] for i in group.positions for j in group.positions if i < j]
        assert group.all_pairs
        assert (group.smallest, group.largest) == pytest.approx((min(pairs), max(pairs)), abs=2e-5)


def test_connected_components():
    (one, other) = connected({(0, 1): 0.9, (1, 2): 0.5, (5, 7): 0.8})
    assert one == {(0, 1): 0.9, (1, 2): 0.5}
    assert other == {(5, 7): 0.8}
    assert len(connected({(i, i + 1): 0.9 for i in range(3000)})) == 1


def test_a_chain_whose_ends_show_different_things_is_cut(tmp_path):
    """Neighbours are 40 degrees apart and linked; ends of the chain are opposite."""
    view = view_of(tmp_path, angles(0, 40, 80, 120, 160, 200))
    assert len(connected({(a, b): score for a, b, score in links(view, 0.7)})) == 1
    assert [len(group.positions) for group in joined(view, 0.7)] == [2, 2, 2]


@pytest.mark.parametrize("kind", ["copies", "same thing"])
def test_verified_links_join_whatever_they_link(tmp_path, kind):
    """Two parts of a picture that share nothing are copies of it: the first and the last are opposite."""
    view = view_of(tmp_path, angles(0, 60, 120, 180))
    chain = {(0, 1): 0.5, (1, 2): 0.5, (2, 3): 0.5}
    (group,) = grouped(view, chain, 0.5, dict.fromkeys(chain, kind))
    assert (group.positions, group.kind) == ([0, 1, 2, 3], kind)


def test_copies_are_joined_before_other_links_are_tried(tmp_path):
    """The stronger link would join the first two only, if its mean similarity were taken before the copies."""
    view = view_of(tmp_path, angles(0, 40, 180))
    (group,) = grouped(view, {(0, 1): 0.8, (1, 2): -0.8}, 0.5, {(0, 1): "similar", (1, 2): "copies"})
    assert (group.positions, group.kind) == ([1, 2], "copies")


def test_a_group_that_another_link_has_joined_is_no_group_of_copies(tmp_path):
    view = view_of(tmp_path, angles(0, 10, 20))
    (group,) = grouped(view, {(0, 1): 0.98, (1, 2): 0.98}, 0.5, {(0, 1): "copies", (1, 2): "same thing"})
    assert (group.positions, group.kind) == ([0, 1, 2], "same thing")


def test_a_group_that_a_link_without_verification_has_joined_is_only_similar(tmp_path):
    view = view_of(tmp_path, angles(0, 10, 20))
    (group,) = grouped(view, {(0, 1): 0.98, (1, 2): 0.99}, 0.5, {(0, 1): "same thing", (1, 2): "similar"})
    assert (group.positions, group.kind) == ([0, 1, 2], "similar")


def test_verified_links_join_before_similarity_does(tmp_path):
    """The third image is linked to both others, more by similarity."""
    view = view_of(tmp_path, angles(0, 10, 20))
    kinds = {(0, 1): "same thing", (1, 2): "similar", (0, 2): "same thing"}
    (group,) = grouped(view, {(0, 1): 0.98, (1, 2): 0.99, (0, 2): 0.94}, 0.5, kinds)
    assert (group.positions, group.kind) == ([0, 1, 2], "same thing")


def test_a_weak_link_between_copies_is_contradicted_by_more_matches():
    """A picture (0), a small part of it (1), and the next photograph of a burst (2), of which 3 is a copy."""
    copies = {(0, 1): 156, (1, 2): 71, (2, 3): 300}
    assert believed(copies, {}) == {(0, 1), (1, 2), (2, 3)}
    assert believed(copies, {(0, 2): 290}) == believed(copies, {(0, 3): 290}) == {(0, 1), (2, 3)}
    assert believed(copies, {(0, 2): 70}) == copies.keys()
    assert believed(copies, {(0, 5): 290, (5, 6): 290}) == copies.keys()
    assert believed(copies | {(1, 2): MANY}, {(0, 2): 290}) == copies.keys()


def test_a_group_says_how_similar_its_farthest_images_are(tmp_path):
    """The first and the last are not linked: 60 degrees apart."""
    (group,) = joined(view_of(tmp_path, angles(0, 30, 60)), 0.8)
    assert group.positions == [0, 1, 2]
    assert (group.smallest, group.largest) == pytest.approx((0.5, np.cos(np.radians(30))), abs=1e-5)


def test_a_very_large_group_knows_its_links_only(tmp_path, monkeypatch):
    monkeypatch.setattr(duplicates, "_ALL_PAIRS", 2)
    (group,) = joined(view_of(tmp_path, angles(0, 30, 60)), 0.8)
    assert not group.all_pairs
    assert group.smallest == pytest.approx(np.cos(np.radians(30)), abs=1e-5)


def test_the_surest_groups_come_first_and_of_equal_ones_the_largest(tmp_path):
    vectors = np.zeros((9, 8))
    vectors[0:2, 0:2], vectors[2:4, 2:4], vectors[4:7, 4:6] = angles(0, 30), angles(0, 0), angles(0, 0, 2)
    vectors[7:9, 6:8] = angles(0, 10)
    assert [group.positions for group in joined(view_of(tmp_path, vectors), 0.3)] == [[4, 5, 6], [2, 3], [7, 8], [0, 1]]


# Edited images

SCENES = 4


def textured(seed: int, size: tuple[int, int] = (200, 150)) -> np.ndarray:
    """Blobs of three sizes."""
    rng = np.random.default_rng(seed)
    shown = np.zeros(size[::-1])
    for cell in (10, 20, 40):
        coarse = rng.integers(0, 256, (size[1] // cell + 2, size[0] // cell + 2)).astype(np.uint8)
        shown += np.asarray(PIL.Image.fromarray(coarse).resize(size, PIL.Image.Resampling.BICUBIC), float)
    return (shown / 3).astype(np.uint8)


def in_quality(pixels: np.ndarray, quality: int) -> np.ndarray:
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
    return np.asarray(PIL.Image.open(stream))


def edits(pixels: np.ndarray) -> dict[str, np.ndarray]:
    """The crop has 70 % of the pixels."""
    height, width = (np.array(pixels.shape) * 0.7**0.5).astype(int)
    return {
        "original": pixels,
        "jpeg": in_quality(pixels, 50),
        "crop": pixels[6 : 6 + height, 9 : 9 + width],
        "bright": np.clip(pixels * 1.2 + 10, 0, 255).astype(np.uint8),
    }


@pytest.fixture(scope="module")
def edited(tmp_path_factory) -> Iterator[Collection]:
    """A folder for each scene, with its edits and a copy."""
    folder = tmp_path_factory.mktemp("edited")
    for scene in range(SCENES):
        (folder / "photos" / str(scene)).mkdir(parents=True)
        for name, pixels in edits(textured(scene)).items():
            PIL.Image.fromarray(pixels).save(folder / "photos" / str(scene) / f"{name}.png")
        shutil.copy(folder / "photos" / str(scene) / "original.png", folder / "photos" / str(scene) / "copy.png")
    encoder = Encoder(
        FastFAemb(2, unit_residuals=True),
        projection=Projection(16, unit_after=True),
        whitening=Whitening(),
        pooling="sum",
    )
    model = Model(HessianAffine(max_features=150), encoder)
    with working_here(), Collection.create(folder / "photos.faemb", model) as made:
        made.add(folder / "photos")
        yield made


def names(groups: list[Group]) -> list[list[str]]:
    return sorted(sorted(f"{path.parent.name}/{path.stem}" for path in group.paths) for group in groups)


def everything() -> list[list[str]]:
    return [[f"{scene}/{name}" for name in ("bright", "copy", "crop", "jpeg", "original")] for scene in range(SCENES)]


@pytest.mark.parametrize("same_thing", [False, True])
def test_edits_are_grouped_with_their_original_and_with_nothing_else(edited, same_thing):
    groups = edited.duplicates(same_thing=same_thing)
    assert names(groups) == everything()
    assert {group.kind for group in groups} == {"copies"}
    assert {group.largest for group in groups} == {1}
    assert groups.note == ""


def test_a_low_threshold_compares_more_and_joins_no_more(edited):
    assert names(edited.duplicates(-1)) == everything()


def test_by_similarity_alone(edited):
    groups = edited.duplicates(THRESHOLD, verify=False)
    assert names(groups) == everything()
    assert {group.kind for group in groups} == {"similar"}
    assert all(0.75 * THRESHOLD < group.smallest < 1 for group in groups)
    assert names(edited.duplicates(-1, verify=False)) == [sorted(chain.from_iterable(everything()))]


def test_short_vectors_have_a_higher_threshold(edited):
    similar = partial(edited.duplicates, verify=False)
    assert similar() == similar(THRESHOLD_OF_SHORT) != similar(THRESHOLD)
    assert [default_threshold(dimension) for dimension in (1199, 3959)] == [THRESHOLD_OF_SHORT, THRESHOLD]


def test_a_high_threshold_leaves_exact_copies(edited):
    groups = edited.duplicates(1.0)
    assert names(groups) == [[f"{scene}/copy", f"{scene}/original"] for scene in range(SCENES)]
    assert {group.smallest for group in groups} == {1.0}
    assert {group.similarity for group in groups} == {"similarity 1.000"}


def test_the_image_with_the_most_pixels_is_the_one_to_keep(edited):
    for group in edited.duplicates():
        assert group.reason == "same pixels, largest file"
        *others, last = group.images
        assert {(image.width, image.height) for image in others} == {(200, 150)}
        assert last.path.stem == "crop"
        assert group.images[0].bytes == max(image.bytes for image in others) == group.paths[0].stat().st_size


def test_the_progress_of_verification_counts_pairs(edited):
    calls: list[tuple[str, int, int]] = []
    edited.duplicates(progress=lambda *call: calls.append(call))
    (total,) = {total for stage, _, total in calls if stage == "verification"}
    done = [done for stage, done, _ in calls if stage == "verification"]
    assert done == sorted(done)
    assert done[-1] == total >= SCENES * 4


# Mirrored pictures, other photographs, features that cannot be compared


@pytest.fixture
def collected(tmp_path) -> Iterator[Callable[..., Collection]]:
    """A collection of these pictures, by name."""
    with ExitStack() as opened, working_here():

        def collect(shown: Mapping[str, np.ndarray], *, keep_features: bool = True) -> Collection:
            (tmp_path / "photos").mkdir()
            for name, pixels in shown.items():
                PIL.Image.fromarray(pixels).save(tmp_path / "photos" / f"{name}.png")
            made = opened.enter_context(
                Collection.create(tmp_path / "c", new_tiny_model(300), keep_features=keep_features)
            )
            made.add(tmp_path / "photos")
            return made

        yield collect


def stems(groups: list[Group]) -> list[tuple[str, list[str]]]:
    return sorted((group.kind, sorted(path.stem for path in group.paths)) for group in groups)


def photographed(pixels: np.ndarray) -> np.ndarray:
    """From elsewhere: a perspective transform that no crop, turn or resizing gives."""
    height, width = pixels.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    moved = corners + np.array([[0, 0], [-14, 6], [-4, -10], [8, 2]], np.float32)
    return cv2.warpPerspective(pixels, cv2.getPerspectiveTransform(corners, moved), (width, height))


def test_another_photograph_is_no_copy(collected):
    scenes = {f"scene{seed}": textured(seed, (300, 240)) for seed in range(3)}
    collection = collected({**scenes, "again": photographed(scenes["scene0"])})
    assert stems(collection.duplicates()) == []
    assert stems(collection.duplicates(same_thing=True)) == [("same thing", ["again", "scene0"])]


@pytest.mark.parametrize("others", [0, 1])
def test_a_copy_is_found_in_the_smallest_collection(collected, others):
    """Of which the model learns too little to make copies similar."""
    scene = textured(0, (300, 240))
    shown = {"original": scene, "small": cv2.resize(scene, (150, 120), interpolation=cv2.INTER_AREA)}
    collection = collected(shown | {f"other{seed}": textured(seed, (300, 240)) for seed in range(1, 1 + others)})
    assert stems(collection.duplicates()) == [("copies", ["original", "small"])]


def test_mirrored_copies_are_found_on_request(collected):
    scenes = {f"scene{seed}": textured(seed, (300, 240)) for seed in range(3)}
    collection = collected({**scenes, "flipped": np.ascontiguousarray(scenes["scene0"][:, ::-1])})
    assert stems(collection.duplicates()) == []
    assert stems(collection.duplicates(mirrored=True)) == [("copies", ["flipped", "scene0"])]


def test_pictures_with_the_same_caption_are_no_copies(collected):
    shown = {f"scene{seed}": textured(seed, (300, 240)) for seed in range(3)}
    for pixels in shown.values():
        pixels[200:] = 255
        cv2.putText(pixels, "the same words below", (4, 228), cv2.FONT_HERSHEY_SIMPLEX, 0.8, 0, 2)
    assert stems(collected(shown).duplicates(-1)) == []


def test_features_that_are_not_kept_leave_similarity(collected):
    scenes = {f"scene{seed}": textured(seed, (300, 240)) for seed in range(3)}
    collection = collected({**scenes, "copy": scenes["scene0"]}, keep_features=False)
    assert stems(collection.duplicates(0.99, same_thing=True)) == [("similar", ["copy", "scene0"])]
    groups = collection.duplicates(0.99)
    assert stems(groups) == [("similar", ["copy", "scene0"])]
    assert "the local features of 2 images are not kept; index the images into a new collection" in groups.note


def test_damaged_features_leave_similarity(collected):
    scenes = {f"scene{seed}": textured(seed, (300, 240)) for seed in range(3)}
    collection = collected({**scenes, "copy": scenes["scene0"]})
    (file,) = collection.layout.folder.glob("features-*.bin")
    (entry,) = [entry for entry in collection.entries() if "copy" in entry.path]
    assert entry.offset is not None
    content = bytearray(file.read_bytes())
    content[entry.offset + 40] ^= 255
    file.write_bytes(content)
    groups = collection.duplicates(0.99)
    assert stems(groups) == [("similar", ["copy", "scene0"])]
    assert re.search(r"the local features of 1 image are damaged or lost; run: faemb check .* --repair", groups.note)


@pytest.mark.parametrize("number", [1000.0, 8.3e36, np.nan])
@pytest.mark.parametrize("options", [{}, {"same_thing": True}, {"mirrored": True}, {"verify": False}])
def test_an_image_whose_vector_is_damaged_is_in_no_group(edited, tmp_path, number, options):
    root = shutil.copytree(edited.layout.folder.parent, tmp_path / "root")
    with Collection.open(root / "photos.faemb") as damaged:
        expected = names(damaged.duplicates(**options))
        assert any("1/jpeg" in group for group in expected)
        damage_vector(damaged, root / "photos" / "1" / "jpeg.png", number)
        groups = damaged.duplicates(**options)
    assert names(groups) == [[name for name in group if name != "1/jpeg"] for group in expected]
    assert groups.note.startswith("an image is left out, because the stored vector is damaged; run: faemb check")


def test_a_similarity_that_no_vectors_have_makes_no_copies(edited):
    """As damaged vectors in a server may give, which are not compared with their checksums."""
    view = edited.view()
    judge = PairJudge(view, edited._reader.catalogue.entries_of, unverified=0.4, tolerant=False)
    place = {Path(entry.path).parent.name: row for row, entry in enumerate(edited.entries())}
    for similarity in (1.1, 75.0, np.inf, np.nan):
        pair = Pair(min(place["0"], place["1"]), max(place["0"], place["1"]), similarity)
        assert list(judge.judge([pair], lambda *call: None)) == []


def test_parts_in_another_order_are_no_copy_however_similar(collected):
    """Many regions match, and few of them agree: the vector does not know where they are."""
    scene = textured(0, (320, 240))
    tiles = [scene[y : y + 40, x : x + 40] for y in range(0, 240, 40) for x in range(0, 320, 40)]
    order = np.random.default_rng(3).permutation(len(tiles)).reshape(6, 8)
    shuffled = np.block([[tiles[number] for number in row] for row in order.tolist()])
    collection = collected({"scene": scene, "shuffled": shuffled})
    judge = PairJudge(collection.view(), collection._reader.catalogue.entries_of, unverified=0.4, tolerant=False)
    found = list(judge.judge([Pair(0, 1, 0.97)], lambda *call: None))
    assert [finding.kind for _, finding in found if finding.kind == "copies"] == []


def test_mirrored_images_without_features_are_told(collected):
    scenes = {f"scene{seed}": textured(seed, (300, 240)) for seed in range(3)}
    collection = collected({**scenes, "copy": scenes["scene0"]}, keep_features=False)
    groups = collection.duplicates(0.99, mirrored=True)
    assert stems(groups) == [("similar", ["copy", "scene0"])]
    assert "the local features of 4 images are not kept" in groups.note


@pytest.mark.parametrize("given", ["same_thing", "mirrored"])
def test_what_only_features_tell_is_refused_without_them(edited, given):
    with pytest.raises(InputError, match=f"{given} is set; expected local features to be compared"):
        edited.duplicates(verify=False, **{given: True})


@pytest.mark.parametrize("kind", ["rabitq", "hnsw", "ivf-pq", "binary"])
def test_every_index_finds_the_same_groups(edited, kind):
    pytest.importorskip("faiss")
    found, expected = (edited.duplicates(index=name) for name in (kind, "exact"))
    assert [set(group.paths) for group in found] == [set(group.paths) for group in expected]


@pytest.mark.parametrize("threshold", [1.5, -2, float("nan")])
def test_a_wrong_threshold_is_refused(edited, threshold):
    with pytest.raises(InputError, match="threshold is"):
        edited.duplicates(threshold)


def test_images_of_the_night(tmp_path):
    """One spot of light each: too few features to link them, except copies."""
    for name, place in {"a": (40, 40), "b": (60, 30), "c": (30, 50)}.items():
        night = np.zeros((90, 120), np.uint8)
        cv2.circle(night, place, 9, 255, -1)
        PIL.Image.fromarray(night).save(tmp_path / f"{name}.png")
    shutil.copy(tmp_path / "a.png", tmp_path / "copy.png")
    with Collection.create(tmp_path / "c", tiny_model()) as collection:
        collection.add(tmp_path)
        assert all(0 < entry.features < 10 for entry in collection.entries())
        groups = collection.duplicates(0.3)
    assert {path.stem for group in groups for path in group.paths} >= {"a", "copy"}
    assert all(group.smallest >= 0.95 for group in groups)


def test_files_of_the_same_bytes_are_copies_also_without_features(tmp_path):
    pictures(tmp_path / "photos", range(3))
    shutil.copy(tmp_path / "photos" / "001.png", tmp_path / "photos" / "twin.png")
    for name in ("flat1.png", "flat2.png", "flat3.png"):
        blank(tmp_path / "photos" / name)
    blank(tmp_path / "photos" / "darker.png", level=90)
    with Collection.create(tmp_path / "c", tiny_model()) as collection:
        collection.add(tmp_path / "photos")
        for verify in (True, False):
            found = stems(collection.duplicates(verify=verify))
            assert ("copies", ["flat1", "flat2", "flat3"]) in found
            assert sorted(names for _, names in found) == [["001", "twin"], ["flat1", "flat2", "flat3"]]
