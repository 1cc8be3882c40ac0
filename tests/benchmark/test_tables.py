"""A miniature of every table, on a rendered set: rows, their numbers, what is kept, and how a run goes on."""

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from scipy.special import logit

from faemb import Encoder, Whitening
from faemb.benchmark import distractors
from faemb.benchmark.command import Experiment, paper_dataset, run_experiment
from faemb.benchmark.datasets import COMPLETE, open_dataset
from faemb.benchmark.formatting import PAPER, columns
from faemb.benchmark.provenance import CAUTION, caution
from faemb.benchmark.reranking import EXPANDING, SEARCHING, VERIFYING, Elsewhere, Reranked, expand
from faemb.benchmark.rows import PER_DESCRIPTOR, RequestedRow, Retrieval
from faemb.benchmark.run import Run
from faemb.benchmark.runner import JOURNAL, run_table
from faemb.benchmark.scoring import measured, similarities
from faemb.benchmark.tables import TABLES, Choice, one, table_named
from faemb.benchmark.workbench import Workbench, stem_of
from faemb.errors import InputError
from faemb.features import HessianAffine
from faemb.presets import preset
from faemb.rerank import Judge, Unrelated, sample_of
from faemb.rerank.expansion import LIMIT
from faemb.runtime.parallel import spread
from pictures import blank, pictures, pixels
from recording import recording
from reference import reciprocal_by_the_book
from rendered import mean_ap_by_hand, rendered, tiny
from small_datasets import OXFORD, OXFORD_IMAGES, write_images, write_oxford, write_table

EXTRACTOR = HessianAffine(max_features=40)
pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module", autouse=True)
def in_one_thread(one_thread: None) -> None:
    """All that is computed here is small."""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("bench")
    rendered(place / "holidays")
    # Eight bits that nine images teach give a mAP of 31 to 81, depending on the seed; of 24 images, 63 to 100.
    pictures(place / "learning", range(100, 124), (160, 120))
    return place


@pytest.fixture(scope="module")
def bench(place) -> Workbench:
    return bench_in(place)


def bench_in(place: Path, **options) -> Workbench:
    dataset = open_dataset(place / "holidays")
    return Workbench(dataset, [place / "learning"], EXTRACTOR, place / "cache", jobs=1, **options)


def retrievals(rows: Iterable[RequestedRow]) -> list[Retrieval]:
    """The same rows, all of which are retrieval by an encoder."""
    found = []
    for row in rows:
        assert isinstance(row, Retrieval)
        found.append(row)
    return found


def miniature(name: str) -> Iterator[RequestedRow]:
    for asked in TABLES[name].rows(Choice("holidays", adapt=tiny)):
        yield replace(asked, bits=8) if isinstance(asked, Retrieval) and asked.bits else asked


def run_rows(name: str, asked: Sequence[RequestedRow], bench: Workbench, out: Path) -> Run:
    """Each row once."""
    return run_table(name, TABLES[name], [[each] for each in asked], bench, out, {})


RETRIEVAL = [name for name in TABLES if name not in ("timing", "convergence", "large", "cnn")]


@pytest.mark.parametrize("name", RETRIEVAL)
def test_every_table(bench, place, name, tmp_path):
    asked = list(miniature(name))
    run = run_rows(name, asked, bench, tmp_path)
    assert len(run.rows) == len(asked) > 3
    if name != "short":  # where all lengths are those of the miniature
        assert len({str(dict(row.settings)) for row in run.rows}) == len(asked)
    assert all(0 <= row.measures["mAP"] <= 100 for row in run.rows)
    best = max(row.measures["mAP"] for row in run.rows)
    assert best > 60  # by chance it would be about 20
    assert Run.load(run.save(tmp_path)) == run


def test_anchors_are_as_many_as_a_row_says():
    for row in retrievals(TABLES["anchors"].rows(Choice(""))):
        assert row.encoder.embedding.n_anchors == row.settings["n"]


def test_timing(bench, tmp_path):
    run = run_rows("timing", list(miniature("timing")), bench, tmp_path)
    assert [row.settings["method"] for row in run.rows] == ["VLAD", "Fisher", "Temb", "VLAT", "FAemb", "F-FAemb"]
    assert all(0 < value < 1e6 for row in run.rows for value in row.measures.values())
    assert {row.settings["method"]: row.published.get(PER_DESCRIPTOR) for row in run.rows} == {
        "VLAD": None, "Fisher": 1420, "Temb": None, "VLAT": 250, "FAemb": 8320, "F-FAemb": 780,
    }  # fmt: skip


def test_convergence(bench, tmp_path):
    run = run_rows("convergence", list(miniature("convergence")), bench, tmp_path)
    for row in run.rows:
        assert len(row.series) > 2
        assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(row.series))
        assert row.measures["objective, last"] == row.series[-1]


def test_published_numbers_stand_beside_their_settings():
    rows = {(row.settings["method"], row.settings["n"]): row.published for row in retrievals(miniature("sota"))}
    assert rows["FAemb", 8] == {"mAP": 72.7}
    assert rows["F-FAemb +RN", 8] == {"mAP": 75.5}
    assert all(not row.published for row in retrievals(TABLES["sota"].rows(Choice(""))))


class TestKinds:
    """The kind of a dataset decides which published numbers are its own, whatever its folder is called."""

    def test_oxford_in_a_folder_of_any_name(self, tmp_path):
        write_oxford(tmp_path / "ox" / "gt", OXFORD)
        dataset = open_dataset(write_images(tmp_path / "ox", *(f"{name}.jpg" for name in OXFORD_IMAGES)))
        assert paper_dataset(dataset) == "oxford5k"
        assert paper_dataset(dataset.with_distractors(write_images(tmp_path / "more", "a.jpg"))) == "oxford105k"

    def test_other_datasets_in_a_folder_called_holidays(self, tmp_path):
        folder = write_images(tmp_path / "holidays", "a.jpg", "b.jpg")
        assert paper_dataset(open_dataset(write_table(folder, "query\trelevant\tjunk", "a.jpg\tb.jpg\t"))) == ""

    def test_part_of_holidays_with_a_table(self, data):
        assert paper_dataset(open_dataset(data / "holidays811")) == "holidays"


class TestPooling:
    """Published numbers were measured with Sinkhorn pooling."""

    def test_rows_with_another_pooling_are_reported_to_differ(self, bench, tmp_path):
        run = run_rows("sota", list(miniature("sota"))[:2], bench, tmp_path)
        assert {row.settings["pooling"] for row in run.rows} == {"democratic"}
        assert "sinkhorn pooling; rows with democratic pooling are not directly comparable." in caution(run)

    @pytest.mark.parametrize("table", ["embeddings", "sota", "short", "binary"])
    def test_a_whole_table_can_have_the_pooling_of_the_paper(self, table):
        rows = retrievals(TABLES[table].rows(Choice("holidays", pooling="sinkhorn")))
        assert {row.encoder.pooling for row in rows} == {"sinkhorn"}

    def test_rows_with_the_same_pooling_are_not(self, bench, tmp_path):
        compared = [row for row in retrievals(miniature("embeddings")) if row.published]
        assert {row.encoder.pooling for row in compared} == {"sinkhorn"}
        run = run_rows("embeddings", compared[:1], bench, tmp_path)
        assert caution(run) == CAUTION


def test_each_image_is_read_once_for_its_checksum(place, tmp_path, monkeypatch):
    read: list[Path] = []
    digest = recording(lambda file, name: read.append(Path(file.name)), hashlib.file_digest)
    monkeypatch.setattr(hashlib, "file_digest", digest)
    bench = Workbench(open_dataset(place / "holidays"), [place / "learning"], EXTRACTOR, tmp_path / "cache", jobs=1)
    run_rows("anchors", list(miniature("anchors"))[:1], bench, tmp_path / "out")
    assert sorted(read) == sorted([*bench.dataset.images, *bench.learning[0][1]])


def test_a_row_is_what_the_encoder_gives(bench):
    """Fitted, pooled, finished and ranked step by step, or all at once by the encoder itself."""
    encoder = tiny(preset("f-faemb-8", rotation=True))
    row = Retrieval({}, encoder).answer(bench)
    learning = [bench.learning_sets[0][k] for k in range(len(bench.learning_sets[0]))]
    encoder.fit(learning)
    vectors = encoder.encode([bench.images[k] for k in range(len(bench.images))])
    assert row.measures["mAP"] == pytest.approx(mean_ap_by_hand(vectors, bench.dataset), abs=1e-3)


def test_rows_that_differ_in_the_last_steps_share_the_costly_ones(bench):
    plain, turned = tiny(preset("f-faemb-8")), tiny(preset("f-faemb-8", rotation=True, power=0.7, keep=5))
    assert bench.key_of(stem_of(plain)) == bench.key_of(stem_of(turned))
    assert bench.key_of(stem_of(plain)) != bench.key_of(stem_of(tiny(preset("f-faemb-8", pooling="sum"))))


class TestSeeds:
    def test_rows_are_means_of_what_each_seed_gives(self, place, tmp_path, monkeypatch):
        monkeypatch.setattr("faemb.benchmark.tables.preset", lambda *some, **more: tiny(preset(*some, **more, keep=2)))
        three = Experiment(place / "holidays", (place / "learning",), EXTRACTOR, preset="small", seeds=3, seed=5)
        run = run_experiment(three, tmp_path / "all", place / "cache", jobs=1)
        assert run.settings["seeds"] == "5, 6, 7"
        alone = [
            run_experiment(replace(three, seeds=1, seed=seed), tmp_path / str(seed), place / "cache", jobs=1).rows[0]
            for seed in (5, 6, 7)
        ]
        scores = [row.measures["mAP"] for row in alone]
        assert len(set(scores)) > 1
        assert run.rows[0].measures["mAP"] == pytest.approx(np.mean(scores))
        assert run.rows[0].spread["mAP"] == pytest.approx(np.std(scores, ddof=1))
        assert Run.load(run.save(tmp_path / "all")) == run

    def test_at_least_one(self, place, tmp_path):
        experiment = Experiment(place / "holidays", (place / "learning",), EXTRACTOR, preset="small", seeds=0)
        with pytest.raises(InputError, match="seeds is 0"):
            run_experiment(experiment, tmp_path / "out", tmp_path / "cache")
        assert not list(tmp_path.iterdir())


def whitening_of(encoder: Encoder) -> Whitening:
    assert encoder.whitening_ is not None
    return encoder.whitening_


def test_whitenings_share_the_statistics_of_their_embedding(place, tmp_path, monkeypatch):
    bench = Workbench(open_dataset(place / "holidays"), [place / "learning"], EXTRACTOR, tmp_path / "cache", jobs=1)
    stem = stem_of(tiny(preset("f-faemb-8")))
    bench.fitted(stem)
    sample = bench._sample(stem.seed)
    learned = [
        deepcopy(stem).set_params(whitening__discard=n, whitening__floor=floor) for n, floor in ((3, 0.1), (0, 0.0))
    ]
    expected = [deepcopy(each).fit(sample) for each in learned]
    monkeypatch.setattr(Encoder, "fit_embedding", lambda *call, **options: pytest.fail("learned again"))
    for each, whole in zip(learned, expected, strict=True):
        got = bench.fitted(each)
        right = whitening_of(whole).matrix_
        np.testing.assert_allclose(whitening_of(got).matrix_, right, atol=1e-5 * right.max())
        np.testing.assert_array_equal(got.embedding_.anchors_, whole.embedding_.anchors_)


def test_rotation_of_sinkhorn_pooling_is_learned_from_democratically_pooled_images(bench, place, tmp_path):
    other = Workbench(bench.dataset, [place / "learning"], EXTRACTOR, tmp_path / "cache", jobs=1)
    clipped = other.pooled(tiny(preset("f-faemb-8", pooling="sinkhorn")))
    exact = bench.pooled(tiny(preset("f-faemb-8", pooling="democratic")))
    np.testing.assert_allclose(clipped.learning, exact.learning, atol=1e-4)
    assert np.abs(clipped.images - exact.images).max() > 1e-3


@pytest.mark.torch
def test_learned_and_pooled_on_a_device(place, tmp_path):
    """The device is used to learn as well; PyTorch on the CPU stands for a GPU."""
    pytest.importorskip("torch")
    encoder = tiny(preset("f-faemb-8"))
    here = Workbench(open_dataset(place / "holidays"), [place / "learning"], EXTRACTOR, place / "cache", jobs=1)
    there = Workbench(here.dataset, [place / "learning"], EXTRACTOR, tmp_path / "cache", jobs=1, device="torch:cpu")
    score = Retrieval({}, encoder).answer(there).measures["mAP"]
    assert "torch" in type(there.fitted(stem_of(encoder)).embedding_.anchors_).__module__
    assert score == pytest.approx(Retrieval({}, encoder).answer(here).measures["mAP"], abs=3)


def test_a_run_goes_on_where_it_stopped(bench, tmp_path, monkeypatch):
    asked = list(miniature("binary"))
    first = run_rows("binary", asked[:3], bench, tmp_path)
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"key": "cut sho')
    done: list[RequestedRow] = []
    monkeypatch.setattr(Retrieval, "answer", recording(lambda row, bench: done.append(row), Retrieval.answer))
    whole = run_rows("binary", asked, bench, tmp_path)
    assert done == asked[3:]
    assert whole.rows[:3] == first.rows


def test_another_run_takes_everything_from_the_cache(bench, place, monkeypatch, tmp_path):
    asked = list(miniature("anchors"))[:2]
    before = run_rows("anchors", asked, bench, tmp_path / "one")
    monkeypatch.setattr(Encoder, "fit_embedding", lambda *call, **options: pytest.fail("learned again"))
    monkeypatch.setattr(Encoder, "pool", lambda *call, **options: pytest.fail("pooled again"))
    monkeypatch.setattr(HessianAffine, "describe", lambda *call: pytest.fail("extracted again"))
    again = run_rows("anchors", asked, bench_in(place), tmp_path / "two")
    assert [row.measures for row in again.rows] == [row.measures for row in before.rows]


def test_other_data_are_not_taken_for_these(place, tmp_path):
    one = bench_in(place)
    rendered(tmp_path / "holidays")
    cv2.imwrite(str(tmp_path / "holidays" / "100600.png"), pixels(77, (160, 120)))
    pictures(tmp_path / "learning", range(100, 109), (160, 120))
    encoder = tiny(preset("f-faemb-8"))
    assert bench_in(tmp_path).key_of(encoder) != one.key_of(encoder)


def test_the_same_queries_in_another_order_are_other_data(place, tmp_path):
    """Vectors are stored by number; checksums alone do not say which is whose."""
    folder = rendered(tmp_path / "set")
    lines = ["100000.png\t100001.png\t\t1,1,90,90\n", "100100.png\t100101.png\t\t5,5,80,80\n"]
    keys = []
    for ordered in (lines, lines[::-1]):
        (folder / "gt.tsv").write_text("".join(["query\trelevant\tjunk\tbbox_x1y1x2y2\n", *ordered]))
        bench = Workbench(open_dataset(folder), [place / "learning"], EXTRACTOR, tmp_path / "cache", jobs=1)
        keys.append(bench.key_of(tiny(preset("f-faemb-8"))))
    assert keys[0] != keys[1]


def test_statistics_that_were_deleted_are_computed_again(bench, place, tmp_path):
    other = Workbench(bench.dataset, [place / "learning"], EXTRACTOR, tmp_path / "cache", jobs=1)
    stem = stem_of(tiny(preset("f-faemb-8")))
    before = whitening_of(other.fitted(stem)).matrix_
    for path in (tmp_path / "cache").rglob("spectrum.npz"):
        path.unlink()
    np.testing.assert_array_equal(whitening_of(other.fitted(stem)).matrix_, before)


def test_a_box_selects_features_of_the_query(place, tmp_path):
    rendered(tmp_path / "set")
    (tmp_path / "set" / "gt.tsv").write_text(
        "query\trelevant\tjunk\tbbox_x1y1x2y2\n100000.png\t100001.png,100002.png\t\t10,10,120,100\n"
    )
    bench = Workbench(open_dataset(tmp_path / "set"), [place / "learning"], EXTRACTOR, tmp_path / "cache", jobs=1)
    whole = bench.images.features(0)
    assert 0 < len(bench.query_sets[0]) < len(whole)
    np.testing.assert_array_equal(bench.query_sets[0], whole.inside((10, 10, 120, 100)).descriptors)
    assert 0 < Retrieval({}, tiny(preset("f-faemb-8"))).answer(bench).measures["mAP"] <= 100


@pytest.fixture(scope="module")
def crowd(place) -> Path:
    """Others, one that shows nothing and one that cannot be read."""
    crowd = pictures(place / "crowd", range(300, 309), (160, 120))
    blank(crowd / "blank.png")
    (crowd / "broken.png").write_text("no image")
    return crowd


class TestDistractors:
    def among(self, place, crowd) -> Workbench:
        dataset = open_dataset(place / "holidays").with_distractors(crowd)
        return Workbench(dataset, [place / "learning"], EXTRACTOR, place / "cache", jobs=1)

    @pytest.mark.parametrize("shard", [4, 1024])
    @pytest.mark.parametrize("bits", [None, 8])
    def test_the_same_as_in_one_ranking(self, place, crowd, bench, monkeypatch, tmp_path, shard, bits):
        monkeypatch.setattr("faemb.benchmark.distractors.SHARD", shard)
        asked = Retrieval({"shard": shard}, tiny(preset("f-faemb-8", rotation=True)), bits=bits)
        (row,) = run_rows("large", [asked], self.among(place, crowd), tmp_path).rows
        together = rendered(tmp_path / "together" / "holidays")
        for path in sorted(crowd.iterdir()):
            name = f"9{path.stem}01.png" if path.stem.isdigit() else "999901.png"  # groups without a query
            if path.stem != "broken":
                shutil.copy(path, together / name)
        whole = Workbench(open_dataset(together), [place / "learning"], EXTRACTOR, place / "cache", jobs=1)
        assert len(whole.dataset.queries) == len(bench.dataset.queries)
        assert row.measures["mAP"] == pytest.approx(asked.answer(whole).measures["mAP"], abs=0.5)
        assert row.measures["mAP"] <= asked.answer(bench).measures["mAP"] + 1e-9

    def test_workers_describe_them_in_order_and_one_that_cannot_be_read_has_nothing(self, crowd, bench, monkeypatch):
        monkeypatch.setattr(distractors, "spread", spread)
        paths = sorted(crowd.iterdir())
        found = distractors._descriptors(paths, bench)
        assert [len(each) > 0 for each in found] == [path.stem.isdigit() for path in paths]
        np.testing.assert_array_equal(found[3], EXTRACTOR.extract(paths[3]).descriptors)

    def test_images_are_described_once_for_all_rows(self, place, crowd, tmp_path, monkeypatch):
        seen: list[int] = []
        monkeypatch.setattr("faemb.benchmark.distractors._descriptors", _counting(seen))
        asked = [
            Retrieval({"keep": keep, "method": name}, tiny(preset(name, keep=keep, power=0.45)))
            for name in ("temb-64", "f-faemb-8")
            for keep in (4, 8)
        ]
        bench = self.among(place, crowd)
        run = run_rows("large", asked, bench, tmp_path / "one")
        run_rows("large", asked, bench, tmp_path / "two")
        assert len(run.rows) == 4
        assert len(seen) <= 1
        assert [used.images for used in run.distractors] == [11]

    def test_a_large_table_needs_some(self, place, tmp_path):
        experiment = Experiment(place / "holidays", (place / "learning",), EXTRACTOR, table="large")
        with pytest.raises(InputError, match="needs distractor images; give a folder of them with --distractors"):
            run_experiment(experiment, tmp_path / "out", tmp_path / "cache")

    def test_published_numbers_are_those_with_distractors(self, place, crowd):
        assert paper_dataset(self.among(place, crowd).dataset) == "holidays+flickr1m"

    def test_fewer_distractors_than_published_are_noted(self, place, crowd, tmp_path):
        asked = Retrieval({}, tiny(preset("f-faemb-8")), {"mAP": 58.0})
        run = run_rows("large", [asked], self.among(place, crowd), tmp_path)
        assert [used.note for used in run.distractors] == ["published results have 1,000,000"]
        complete = replace(run, dataset=replace(run.dataset, note=COMPLETE))
        assert CAUTION in caution(complete)
        assert CAUTION not in caution(replace(complete, distractors=()))


def _counting(seen: list[int]) -> Callable[..., Any]:
    return recording(lambda paths, bench: seen.append(len(paths)), distractors._descriptors)


class TestExperiment:
    def experiment(self, place, **changes) -> Experiment:
        settings = {"dataset": place / "holidays", "learning": (place / "learning",), "extractor": EXTRACTOR, **changes}
        return Experiment(**settings)

    @pytest.mark.parametrize("changes", [{}, {"table": "sota", "preset": "small"}])
    def test_a_table_or_a_preset(self, place, tmp_path, changes):
        with pytest.raises(InputError, match="either a table or a preset"):
            run_experiment(self.experiment(place, **changes), tmp_path / "out", tmp_path / "cache")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"table": "none"}, "no table is called 'none'; there are embeddings"),
            ({"preset": "none"}, "no preset is called 'none'"),
            ({"preset": "small", "learning": (Path("nowhere"),)}, "there is no folder nowhere"),
            ({"preset": "small", "dataset": Path("nowhere")}, "there is no folder nowhere"),
            ({"preset": "small", "kind": "none"}, "no kind of benchmark is called 'none'"),
            ({"preset": "small", "variant": "paper"}, "has no variant"),
            ({"preset": "small", "pooling": "mean"}, "pooling is 'mean'; expected one of sum, democratic"),
        ],
    )
    def test_mistakes_are_reported_before_any_work(self, place, tmp_path, changes, words):
        with pytest.raises(InputError, match=words):
            run_experiment(self.experiment(place, **changes), tmp_path / "out", tmp_path / "cache")
        assert not list(tmp_path.iterdir())

    def test_an_empty_learning_folder(self, place, tmp_path):
        (tmp_path / "empty").mkdir()
        with pytest.raises(InputError, match="holds no images to learn from"):
            run_experiment(
                self.experiment(place, preset="small", learning=(tmp_path / "empty",)), tmp_path / "o", tmp_path / "c"
            )

    def test_codes_longer_than_the_learning_images_can_teach(self, place, tmp_path):
        with pytest.raises(InputError, match="codes of 1024 bits need more than 1024 images to learn from"):
            run_experiment(self.experiment(place, table="binary"), tmp_path / "out", tmp_path / "cache")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(("rotation", "number"), [(False, 75.5), (True, 78.6)])
    def test_a_preset_stands_beside_its_published_number(self, rotation, number):
        (row,) = retrievals(one("f-faemb-16", Choice("holidays"), rotation))
        assert row.published == {"mAP": number}
        (row,) = retrievals(one("small", Choice("holidays"), rotation))
        assert row.published == {}

    def test_the_variant_is_part_of_the_settings(self, place, tmp_path, monkeypatch):
        monkeypatch.setattr("faemb.benchmark.tables.preset", lambda *given, **more: tiny(preset(*given, **more)))
        experiment = self.experiment(place, preset="f-faemb-8", variant="released")
        run = run_experiment(experiment, tmp_path / "out", place / "cache", jobs=1)
        assert run.settings["variant"] == "released"
        assert run.rows[0].published == {"mAP": 72.2}

    def test_an_unknown_table(self):
        with pytest.raises(InputError, match="no table is called"):
            table_named("x")


def by_the_book(how: str, query: np.ndarray, images: np.ndarray, removed: int) -> np.ndarray:
    """Expanded similarities of all images to a query that is not among their neighbours."""

    def near(vector: np.ndarray, count: int, *without: int) -> list[int]:
        order = np.argsort(-(images @ vector), kind="stable")
        return [image for image in order.tolist() if image not in (removed, *without)][:count]

    def mean(vector: np.ndarray, own: int) -> np.ndarray:
        total = vector + sum(max(vector @ images[n], 0) * images[n] for n in near(vector, 2, own))
        return total / np.linalg.norm(total)

    if how == "average":
        return images @ mean(query, removed)
    if how == "augmented":
        return np.array([mean(image, number) @ query for number, image in enumerate(images)])
    if how == "reciprocal":
        order = near(query, len(images))
        vectors = [query, *images[order]]
        found = np.zeros(len(images))
        found[order] = reciprocal_by_the_book([[a @ b for b in vectors] for a in vectors])
        return found
    return np.array(
        [
            image @ query - np.mean([image @ images[n] for n in near(image, 10, number)]) / 2
            for number, image in enumerate(images)
        ]
    )


class TestRerank:
    """Verification ranks the most similar images again, by the rules of each dataset."""

    def row(self, verified: int) -> Reranked:
        return Reranked({"verified": verified}, tiny(preset("small")), verified=verified)

    def test_vectors_alone_are_the_row_of_retrieval(self, bench):
        row, plain = self.row(0).answer(bench), Retrieval({}, tiny(preset("small"))).answer(bench)
        assert row.measures["mAP"] == plain.measures["mAP"]
        assert row.measures[SEARCHING] > 0
        assert VERIFYING not in row.measures

    def test_verification_orders_the_best_candidates_by_their_judgement(self, bench):
        count = 5
        row = self.row(count).answer(bench)
        vectors = self.row(0).vectors(bench)
        judge = Judge(Unrelated.of(vectors.images[sample_of(len(vectors.images))]), EXTRACTOR.largest_turn)
        scores = similarities(vectors.queries, vectors.images)
        for number, query in enumerate(bench.dataset.queries):
            order = [image for image in np.argsort(-scores[number], kind="stable") if image != query.number]
            found = judge.judge(
                bench.query_features[number],
                scores[number, order[:count]],
                [partial(bench.images.features, int(image)) for image in order[:count]],
            )
            by_judgement = sorted(range(count), key=lambda place: -found[place].score)
            order = [order[place] for place in by_judgement] + order[count:]
            scores[number, order] = -np.arange(len(order))
        assert row.measures["mAP"] == pytest.approx(measured(bench.dataset, scores)["mAP"])
        assert row.measures[VERIFYING] > 0

    def test_verification_of_rendered_views_is_better(self, bench):
        assert self.row(100).answer(bench).measures["mAP"] >= self.row(0).answer(bench).measures["mAP"]

    def test_expansion_finds_what_a_sure_result_leads_to(self, bench):
        vectors, (query, *_) = self.row(0).vectors(bench), bench.dataset.queries
        first, second = sorted(query.relevant)[:2]
        judge = Judge(Unrelated.of(vectors.images[sample_of(len(vectors.images))]), EXTRACTOR.largest_turn)
        judged = {first: 5.0}
        expand(bench, judge, judged, vectors.images, query.number)
        assert judged[first] == 5
        assert judged[second] == pytest.approx(logit(LIMIT))
        assert query.number not in judged
        unsure = {first: 1.0}
        expand(bench, judge, unsure, vectors.images, query.number)
        assert unsure == {first: 1.0}

    def test_the_row_with_expansion(self, bench):
        row = Reranked({}, tiny(preset("small")), verified=4, expanded=True)
        measures = row.answer(bench).measures
        assert measures["mAP"] >= self.row(4).answer(bench).measures["mAP"]
        assert min(measures[VERIFYING], measures[EXPANDING]) > 0
        assert row.key(bench) != self.row(4).key(bench)

    @pytest.mark.parametrize("how", ["average", "augmented", "scaled", "reciprocal"])
    def test_rows_expanded_by_vectors(self, bench, how):
        row = Reranked({}, tiny(preset("small")), by_vectors=how)
        assert row.answer(bench).measures[EXPANDING] > 0
        assert row.key(bench) != self.row(0).key(bench)

    @pytest.mark.parametrize("how", ["average", "augmented", "scaled", "reciprocal"])
    def test_rows_expanded_by_vectors_are_ranked_as_a_search_ranks(self, bench, how, monkeypatch):
        """The similarity of every image, from the formula, where the query's own image is in no neighbourhood."""
        seen: list[np.ndarray] = []
        watched = recording(lambda dataset, scores: seen.append(scores), measured)
        monkeypatch.setattr("faemb.benchmark.reranking.measured", watched)
        row = Reranked({}, tiny(preset("small")), by_vectors=how)
        row.answer(bench)
        vectors = row.vectors(bench)
        images = vectors.images.astype(np.float64)
        for query, scores in zip(bench.dataset.queries, seen[0], strict=True):
            order = [image for image in np.argsort(-scores, kind="stable") if image != query.number]
            expected = by_the_book(how, images[query.number], images, query.number)
            ranks = np.argsort(-expected, kind="stable")
            assert order == [image for image in ranks if image != query.number]

    def test_where_no_result_is_sure_expansion_verifies_more(self, bench, monkeypatch):
        seen: list[int] = []
        watched = recording(lambda judge, query, similar, candidates: seen.append(len(candidates)), Judge.judge)
        monkeypatch.setattr(Judge, "judge", watched)
        monkeypatch.setattr("faemb.benchmark.reranking.FURTHER", 4)
        monkeypatch.setattr("faemb.benchmark.reranking.seeds", lambda confidences: [])
        Reranked({}, tiny(preset("small")), verified=1, expanded=True).answer(bench)
        assert seen == [1, 4] * len(bench.dataset.queries)

    def test_a_box_selects_what_is_verified(self, place, tmp_path):
        rendered(tmp_path / "set")
        (tmp_path / "set" / "gt.tsv").write_text(
            "query\trelevant\tjunk\tbbox_x1y1x2y2\n100000.png\t100001.png,100002.png\t100100.png\t10,10,120,100\n"
        )
        bench = Workbench(open_dataset(tmp_path / "set"), [place / "learning"], EXTRACTOR, place / "cache", jobs=1)
        seen: list[int] = []
        watched = recording(lambda judge, query, *more: seen.append(len(query)), Judge.judge)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Judge, "judge", watched)
            self.row(4).answer(bench)
        assert seen == [len(bench.query_sets[0])] != [len(bench.images.features(0))]

    def test_a_query_without_features_is_answered_by_nothing(self, place, tmp_path):
        folder = rendered(tmp_path / "set")
        blank(folder / "200000.png")
        (folder / "gt.tsv").write_text("query\trelevant\tjunk\n200000.png\t100001.png\t\n100000.png\t100001.png\t\n")
        bench = Workbench(open_dataset(folder), [place / "learning"], EXTRACTOR, place / "cache", jobs=1)
        assert self.row(4).answer(bench).measures["mAP"] <= 50

    def test_published_systems_stand_below(self, bench):
        rows = list(TABLES["rerank"].rows(Choice("oxford5k")))
        assert [row.published for row in rows if isinstance(row, Elsewhere)] == [
            {"mAP": value} for value in (55.1, 63.0, 78.4, 83.9)
        ]
        assert not any(isinstance(row, Elsewhere) for row in TABLES["rerank"].rows(Choice("holidays")))
        assert rows[-1].answer(bench).measures == {}

    def test_published_rows_are_written_and_read(self, bench, tmp_path):
        asked = [row for row in TABLES["rerank"].rows(Choice("oxford5k")) if isinstance(row, Elsewhere)]
        run = run_rows("rerank", [self.row(0), *asked], bench, tmp_path)
        assert Run.load(run.save(tmp_path)) == run
        assert [column.cells[1] for column in columns(run) if column.name == PAPER] == ["55.1"]

    def refused(self, place: Path, tmp_path: Path, words: str, *distractors: Path) -> None:
        experiment = Experiment(
            place / "holidays", (place / "learning",), EXTRACTOR, table="rerank", distractors=distractors
        )
        with pytest.raises(InputError, match=words):
            run_experiment(experiment, tmp_path / "out", tmp_path / "cache")
        assert not list(tmp_path.iterdir())

    def test_distractors_are_refused_before_any_work(self, place, crowd, tmp_path):
        self.refused(place, tmp_path, "the table rerank has no rows with distractors", crowd)

    def test_features_without_geometry_are_refused_before_any_work(self, place, tmp_path, monkeypatch):
        monkeypatch.setattr(HessianAffine, "largest_turn", None)
        self.refused(place, tmp_path, "the table rerank needs features with geometry to verify")
