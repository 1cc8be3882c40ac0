"""The commands for collections and models: what they print, where, and how they end.

The first part runs a real process; the rest runs the commands here, without worker processes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Ended, Run, assert_mistake, assert_misuse, commands
from PIL import Image as Pillow

from faemb import arrays, encoder
from faemb.collection import Collection, Model, writing
from faemb.collection.catalogue import Catalogue
from faemb.features import HessianAffine
from faemb.features.files.vecs import read_vecs
from html_pages import Page
from pictures import blank, picture, pictures
from processes import COMMAND, PATIENCE
from small_collections import make_collection, new_tiny_model, tiny_model, work_here

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ["a.png", "b.png", "c.png", "trip/d.png"]
SCORE = r"-?\d\.\d{3}"
SIZE = r"\d+ KB"


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A folder with images, a model, and a collection of the images."""
    folder = make_collection(tmp_path_factory.mktemp("commands"), NAMES)
    tiny_model().save(folder / "tiny.model")
    return folder


@pytest.fixture
def here(template, tmp_path, monkeypatch) -> Path:
    """A copy of it, which is the current folder."""
    folder = tmp_path / "here"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(here, monkeypatch, capfd) -> Run:
    """The command line of these arguments."""
    work_here(monkeypatch)
    return commands(monkeypatch, capfd)


def warnings(ended: Ended) -> list[str]:
    lines = ended.err.splitlines()
    assert all(line.startswith("faemb: ") for line in lines)
    return [line.removeprefix("faemb: ") for line in lines]


# A real process


def test_many_queries_in_a_real_process(here):
    """Which spreads them over others."""
    (here / "broken.png").write_text("no image")
    asked = [f"photos/{name}" for name in NAMES] * 2
    command = [str(COMMAND), "search", "photos.faemb", *asked, "broken.png", "--json", "--top", "1", "--jobs", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
    assert ended.returncode == 3
    assert re.fullmatch(r"faemb: broken\.png [^\n]+\n", ended.stderr)
    found = [answer["hits"][0]["path"] for answer in json.loads(ended.stdout)["answers"]]
    assert found == [str(here / name) for name in asked]


# Making collections


MODEL = ["--model", "tiny.model"]


class TestIndex:
    def test_a_model_is_learned_from_the_images(self, run, here):
        ended = run("index", "photos", "--out", "new.faemb", "--max-features", "70")
        assert (ended.code, ended.err) == (0, "")
        expected = rf"4 images added in \d+\.\d s; {re.escape(str(here))}/new\.faemb has 4 images, \d+\.\d MB\n"
        assert re.fullmatch(expected, ended.out)
        with Collection.open("new.faemb") as made:
            assert made.model.extractor.fingerprint == HessianAffine(max_features=70).fingerprint
            assert made.info().index == "auto"

    @pytest.mark.parametrize("folder", ["potos", "empty"])
    def test_a_folder_without_images_leaves_nothing_behind(self, run, here, folder):
        (here / "empty").mkdir()
        assert_mistake(run("index", folder, "--out", "new.faemb"), folder)
        assert not (here / "new.faemb").exists()

    @pytest.mark.parametrize(
        ("given", "kept"), [([], 2000), (["--max-features", "0"], None), (["--max-features", "9"], 9)]
    )
    def test_the_strongest_features_of_an_image_are_kept(self, run, given, kept):
        assert run("index", "photos", "--out", "new.faemb", *given).code == 0
        with Collection.open("new.faemb") as made:
            assert isinstance(made.model.extractor, HessianAffine)
            assert made.model.extractor.max_features == kept

    def test_the_same_command_goes_on(self, run, here):
        for _ in range(2):
            run("index", "photos", "--out", "new.faemb", "--model", "tiny.model")
        picture(here / "photos" / "new.png", 9)
        ended = run("index", "photos", "--out", "new.faemb", "--model", "tiny.model")
        assert ended.out.startswith("1 image added, 4 unchanged in ")

    def test_options_reach_the_collection(self, run):
        options = ["--model", "tiny.model", "--no-features", "--index", "exact"]
        assert run("index", "photos/a.png", "photos/b.png", "--out", "new.faemb", *options).code == 0
        with Collection.open("new.faemb") as made:
            assert made.info().index == "exact"
            assert all(entry.offset is None for entry in made.entries())

    def test_vectors_of_parts(self, run):
        assert run("index", "photos", "--out", "new.faemb", "--parts", "2").code == 0
        with Collection.open("new.faemb") as made:
            assert made.view().stored.shape[1] == 5
        assert ", also of 2 x 2 parts of each image\n" in run("info", "new.faemb").out
        found = json.loads(
            run("search", "new.faemb", "photos/a.png", "--query-parts", "2", "--verify", "0", "--json").out
        )
        assert found["answers"][0]["hits"][0]["path"].endswith("a.png")

    def test_a_query_that_lies_on_its_side(self, run, tmp_path):
        assert run("index", pictures(tmp_path / "large", range(6), (200, 150)), "--out", "new.faemb").code == 0
        Pillow.open(tmp_path / "large" / "002.png").rotate(90, expand=True).save("turned.png")
        found = json.loads(run("search", "new.faemb", "turned.png", "--turned", "--json").out)["answers"][0]["hits"][0]
        assert (Path(found["path"]).name, found["verdict"]) == ("002.png", "same")
        shown = json.loads(run("explain", "new.faemb", "turned.png", found["path"], "--turned", "--json").out)
        assert shown["verdict"] == "same"

    def test_a_number_of_parts_that_cannot_be_used(self, run):
        assert_mistake(run("index", "photos", "--out", "new.faemb", "--parts", "9"), "parts is 9; .* 2 to 5")
        given = ["--model", "tiny.model", "--parts", "2"]
        assert_mistake(run("index", "photos", "--out", "new.faemb", *given), "--parts cannot be combined with --model")

    def test_quiet(self, run):
        assert run("index", "photos", "--out", "new.faemb", "--model", "tiny.model", "--quiet") == (0, "", "")

    def test_images_that_cannot_be_used_are_reported(self, run, here):
        (here / "photos" / "broken.png").write_text("no image")
        blank(here / "photos" / "flat.png")
        ended = run("index", "photos", "--out", "new.faemb", "--model", "tiny.model", "-q")
        assert (ended.code, ended.out) == (3, "")
        broken, flat = warnings(ended)
        assert broken.startswith("photos/broken.png ")
        assert flat == f"{here / 'photos' / 'flat.png'} has no local features, so it is stored but ranked last"

    def test_for_programs(self, run, here):
        (here / "photos" / "broken.png").write_text("no image")
        blank(here / "photos" / "flat.png")
        ended = run("index", "photos", "--out", "new.faemb", "--model", "tiny.model", "--json")
        report = json.loads(ended.out)
        assert (ended.code, report["added"], report["unchanged"], report["removed"]) == (3, 5, 0, 0)
        assert report["without_features"] == [str(here / "photos" / "flat.png")]
        assert report["failed"] == [{"path": "photos/broken.png", "reason": warnings(ended)[0]}]

    def test_nothing_but_broken_images_is_a_failure(self, run, here):
        (here / "broken.png").write_text("no image")
        ended = run("index", "broken.png", "--out", "new.faemb", "--model", "tiny.model")
        assert ended.code == 1
        assert len(warnings(ended)) == 1
        ended = run("add", "photos.faemb", "broken.png")
        assert ended.code == 1
        assert ended.out.startswith("no images added, 1 could not be read in ")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["gone", "--out", "new.faemb"], "there is no file or folder gone"),
            (["photos", "--out", "tiny.model"], "tiny.model is a file, where a folder is expected; give another name"),
            (["photos", "--out", "photos.faemb"], "was made with other settings; add images to it with: faemb add"),
            (["photos", "--out", "new.faemb", "--model", "gone"], "no model at gone"),
            (["photos", "--out", "new.faemb", "--model", "photos/a.png"], "is not a faemb model"),
            (["photos", "--out", "new.faemb", "--preset", "huge"], "no preset is called 'huge'"),
            (["photos", "--out", "new.faemb", "--variant", "paper"], "the preset 'small' has no variant 'paper'"),
            (["photos", "--out", "new.faemb", "--detector", "surf"], "--detector is 'surf'"),
            (["photos", "--out", "new.faemb", "--detector", "map"], "needs a network"),
            (["photos", "--out", "new.faemb", "--max-features", "-1"], "--max-features is -1"),
            (["photos", "--out", "new.faemb", "--max-side", "3"], "--max-side is 3"),
            (["photos", "--out", "new.faemb", "--index", "tree"], "--index is 'tree'"),
            (["photos", "--out", "new.faemb", *MODEL, "--preset", "small"], "--preset cannot be combined with --model"),
            (
                ["photos", "--out", "new.faemb", *MODEL, "--max-features", "0", "--rotation-invariant"],
                "--max-features, --rotation-invariant cannot be combined with --model",
            ),
            (["photos/a.png", "--out", "new.faemb", "--max-features", "2"], "too few to learn from"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_one_line(self, run, options, words):
        assert_mistake(run("index", *options), words)


class TestGrowing:
    LEARNS = (
        "faemb: the model has learned from 1 of 4 images; it is learned again from 4, "
        "and 4 images are encoded again, which needs no image file\n"
    )

    @pytest.fixture
    def grown(self, run, here) -> Path:
        """A collection that has learned from one image, and now has four."""
        with Collection.create(here / "new.faemb", new_tiny_model()) as made:
            made.add(here / "photos" / "a.png")
        return here / "new.faemb"

    @pytest.mark.parametrize("command", [["add", "new.faemb", "photos"], ["update", "new.faemb"]], ids=lambda c: c[0])
    def test_it_is_said_before_it_begins(self, run, here, grown, command):
        if command[0] == "update":
            with closing(Catalogue(grown / "catalogue.sqlite")) as catalogue:
                catalogue.add_folder("../photos")
        ended = run(*command)
        assert (ended.code, ended.err) == (0, self.LEARNS)
        assert re.match(r"3 images added, 1 unchanged, model learned again from 4 in \d+\.\d s; ", ended.out)
        assert "  the model has learned from 4 of 4 images\n" in run("info", "new.faemb").out

    def test_quiet(self, run, grown):
        assert run("add", "new.faemb", "photos", "-q") == (0, "", "")

    def test_on_demand(self, run, grown):
        ended = run("add", "new.faemb", "photos", "--no-relearn")
        assert (ended.code, ended.err) == (0, "")
        words = "  the model has learned from 1 of 4 images; learn again with: faemb relearn new.faemb\n"
        assert words in run("info", "new.faemb").out
        known = json.loads(run("info", "new.faemb", "--json").out)
        assert (known["learned_from"], known["relearning_is_due"], known["removed"]) == (1, True, 0)
        ended = run("relearn", "new.faemb")
        assert (ended.code, ended.err) == (0, self.LEARNS)
        assert re.fullmatch(r"learned from 4 images in \d+\.\d s; new\.faemb has \d+ dimensions\n", ended.out)
        report = json.loads(run("relearn", "new.faemb", "--json").out)
        assert report["relearned_from"] == 4

    def test_the_same_command_goes_on_with_the_new_model(self, run, here):
        index = ["index", "--out", "new.faemb", "--max-features", "70"]
        assert run(*index, "photos/a.png").code == 0
        ended = run(*index, "photos")
        assert (ended.code, ended.err) == (0, self.LEARNS)
        assert run(*index, "photos", "--no-relearn").err == ""

    def test_without_features_it_is_refused(self, run):
        run("index", "photos", "--out", "new.faemb", "--model", "tiny.model", "--no-features")
        assert_mistake(run("relearn", "new.faemb"), "because local features are not kept in it; index the images into")

    def test_images_and_collection_in_one_folder_are_refused(self, run, here):
        words = "photos holds files that do not belong to a collection: a.png, b.png, c.png, ...; give a new folder"
        assert_mistake(run("index", "photos", "--out", "photos"), re.escape(words))
        assert sorted(os.listdir(here / "photos")) == ["a.png", "b.png", "c.png", "trip"]


class TestChanging:
    def test_add(self, run, here):
        picture(here / "more" / "x.png", 20)
        ended = run("add", "photos.faemb", "more", "photos/a.png")
        assert re.fullmatch(
            r"1 image added, 1 unchanged in \d+\.\d s; .*photos\.faemb has 5 images, .* MB\n", ended.out
        )
        assert (ended.code, ended.err) == (0, "")
        assert run("add", "photos.faemb", "more", "-q") == (0, "", "")

    def test_remove(self, run, here):
        back = "removed images are skipped when folders are searched; to bring one back: faemb add photos.faemb FILE\n"
        ended = run("remove", "photos.faemb", "photos/a.png")
        assert ended == (0, f"1 image removed from photos.faemb\n{back}", "")
        printed = run("update", "photos.faemb").out
        assert printed.startswith("no images added, 3 unchanged, 1 left out because it was removed in ")
        known = run("info", "photos.faemb").out
        assert "  1 removed: skipped when folders are searched; to bring one back: faemb add" in known
        assert run("remove", "photos.faemb", "photos", "-q") == (0, "", "")
        assert (here / "photos" / "a.png").is_file()
        with Collection.open("photos.faemb") as opened:
            assert len(opened) == 0

    def test_a_renamed_image(self, run, here):
        (here / "photos" / "a.png").rename(here / "photos" / "z.png")
        ended = run("update", "photos.faemb")
        assert ended.out.startswith("no images added, 1 image moved, 3 unchanged in ")
        (here / "photos" / "z.png").rename(here / "photos" / "a.png")
        assert json.loads(run("update", "photos.faemb", "--json").out)["moved"] == 1

    def test_relocate(self, run, here):
        (here / "photos").rename(here / "pictures")
        ended = run("update", "photos.faemb")
        assert_mistake(
            ended, "or give the new place with: faemb relocate photos.faemb photos NEW_FOLDER, or remove the "
        )
        assert_mistake(ended, "images with: faemb remove photos.faemb photos\n")
        assert run("relocate", "photos.faemb", "photos", "pictures") == (
            *(0, "4 images of photos.faemb relocated from photos to pictures\n", ""),
        )
        assert run("update", "photos.faemb").out.startswith("no images added, 4 unchanged in ")
        assert_mistake(run("relocate", "photos.faemb", "photos", "pictures"), "there is nothing of .*photos in ")
        (here / "pictures").rename(here / "photos")
        ended = run("relocate", "photos.faemb", "pictures", "photos", "--json")
        assert json.loads(ended.out) == {"relocated": 4}

    def test_update(self, run, here):
        picture(here / "photos" / "x.png", 20)
        picture(here / "photos" / "b.png", 21, size=(128, 96))
        (here / "photos" / "a.png").unlink()
        ended = run("update", "photos.faemb")
        assert ended.out.startswith("1 image added, 1 changed, 1 removed, 2 unchanged in ")
        assert (ended.code, ended.err) == (0, "")
        assert run("update", "photos.faemb", "--quiet") == (0, "", "")

    def test_for_programs(self, run, here):
        picture(here / "more" / "x.png", 20)
        added, updated, removed = (
            json.loads(run(*command, "--json").out)
            for command in (
                ["add", "photos.faemb", "more"], ["update", "photos.faemb"], ["remove", "photos.faemb", "more"],
            )
        )  # fmt: skip
        assert (added["added"], added["unchanged"], added["failed"]) == (1, 0, [])
        assert (updated["added"], updated["unchanged"], updated["removed"]) == (0, 5, 0)
        assert removed == {"removed": 1}

    def test_a_folder_that_is_empty(self, run, here):
        """As that of a drive that is not connected."""
        shutil.rmtree(here / "photos")
        (here / "photos").mkdir()
        ended = run("update", "photos.faemb")
        assert ended.code == 1
        (sentence,) = warnings(ended)
        assert sentence.startswith(f"all images of the folder {here / 'photos'} are gone (4); they were not removed; ")
        assert sentence.endswith("faemb update photos.faemb --allow-removing")
        assert ended.out.startswith("no images added in ")
        ended = run("update", "photos.faemb", "--allow-removing")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith("no images added, 4 removed in ")

    def test_a_folder_that_is_gone(self, run, here):
        (here / "photos").rename(here / "away")
        assert_mistake(run("update", "photos.faemb"), "photos is not there, and its images were not touched")
        assert run("remove", "photos.faemb", "photos").out == "4 images removed from photos.faemb\n"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["add", "photos.faemb", "gone.png"], "there is no file or folder gone.png"),
            (["add", "gone.faemb", "photos"], "no collection at gone.faemb; make one with: faemb index"),
            (["add", "photos", "photos"], "no collection at photos"),
            (["remove", "photos.faemb", "gone.png"], "gone.png is not in the collection"),
            (["remove", "gone.faemb", "photos"], "no collection at gone.faemb"),
            (["update", "gone.faemb"], "no collection at gone.faemb"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_one_line(self, run, arguments, words):
        assert_mistake(run(*arguments), words)

    def test_a_wrong_number_of_workers(self, run, here, monkeypatch):
        monkeypatch.undo()
        monkeypatch.chdir(here)
        picture(here / "photos" / "x.png", 20)
        for command in (["add", "photos.faemb", "photos"], ["update", "photos.faemb"]):
            assert_mistake(run(*command, "--jobs", "0"), "--jobs is 0; expected a whole number, 1 to 1024")


# Looking at them


class TestInfo:
    def test_for_people(self, run, here):
        (here / "photos" / "broken.png").write_text("no image")
        blank(here / "photos" / "flat.png")
        run("add", "photos.faemb", "photos")
        ended = run("info", "photos.faemb")
        assert (ended.code, ended.err) == (0, "")
        first, *rest = ended.out.splitlines()
        assert re.fullmatch(r"photos\.faemb: 5 images, 4 searchable, \d+\.\d MB", first)
        assert "  1 without local features: ranked last" in rest
        assert any(line.startswith("  not readable: ") and "broken.png" in line for line in rest)
        assert f"  folder {here / 'photos'}" in rest
        assert "  features HessianAffine(max_features=40)" in rest
        assert "  index    auto, now exact" in rest

    def test_for_programs(self, run, here):
        ended = run("info", "photos.faemb", "--json")
        known = json.loads(ended.out)
        assert (ended.code, ended.err) == (0, "")
        assert (known["images"], known["searchable"], known["waiting"], known["without_features"]) == (4, 4, 0, 0)
        assert known["folders"] == [str(here / "photos")]
        assert known["unreadable"] == {}

    def test_after_an_interruption(self, run, monkeypatch):
        def stop(*arguments: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(writing.Writer, "encode", stop)
            assert run("index", "photos", "--out", "new.faemb", "--model", "tiny.model").code == 130
        printed = run("info", "new.faemb").out
        assert "  4 not encoded yet: a command was interrupted; run: faemb update new.faemb\n" in printed
        with Collection.open("new.faemb") as busy, busy._changing(None):
            assert "  4 not encoded yet: another process is working on it\n" in run("info", "new.faemb").out
        assert run("update", "new.faemb").code == 0
        assert "not encoded" not in run("info", "new.faemb").out


class TestCheck:
    @pytest.fixture
    def damaged(self, here) -> Path:
        path = here / "photos.faemb" / "vectors-1.f32"
        content = bytearray(path.read_bytes())
        content[0] ^= 0xFF
        path.write_bytes(content)
        return path

    def test_a_whole_collection(self, run):
        assert run("check", "photos.faemb") == (0, "photos.faemb is undamaged\n", "")
        assert run("check", "photos.faemb", "--quiet", "--repair") == (0, "", "")

    def test_damage_is_reported_and_ends_with_one(self, run, damaged):
        ended = run("check", "photos.faemb")
        assert ended.code == 1
        assert ended.out == "1 fault in photos.faemb; repair with: faemb check photos.faemb --repair\n"
        (sentence,) = warnings(ended)
        assert "a.png" in sentence
        assert run("check", "photos.faemb", "--quiet").out == ""

    def test_repair(self, run, damaged):
        ended = run("check", "photos.faemb", "--repair")
        assert ended.code == 0
        assert ended.out == "1 of 1 fault in photos.faemb repaired\n"
        assert len(warnings(ended)) == 1
        assert run("check", "photos.faemb").code == 0
        assert run("search", "photos.faemb", "photos/a.png", "--threshold", "1").out.count("photos/a.png") == 2

    def test_for_programs(self, run, damaged):
        ended = run("check", "photos.faemb", "--json")
        report = json.loads(ended.out)
        assert ended.code == 1
        assert report["faults"] == report["remaining"] == warnings(ended)
        ended = run("check", "photos.faemb", "--repair", "--json")
        assert (ended.code, json.loads(ended.out)) == (0, {**report, "remaining": []})
        assert json.loads(run("check", "photos.faemb", "--json").out) == {"faults": [], "remaining": []}

    def test_no_collection(self, run):
        assert_mistake(run("check", "gone.faemb"), "no collection at gone.faemb")


# Searching


class TestSearch:
    def test_for_people(self, run, here):
        ended = run("search", "photos.faemb", "photos/b.png", "--top", "2")
        first, verdict, itself, *others = ended.out.splitlines()
        assert (ended.code, ended.err) == (0, "")
        assert first == "photos/b.png: 40 local features"
        assert verdict == "  no confirmed match; most similar images:"
        assert itself == f"      same  99 %  1.000  {here / 'photos' / 'b.png'}  (the query itself)"
        for rank, other in zip((1, 2), others, strict=True):
            assert re.fullmatch(rf"   {rank}\. +\d+ % +{SCORE}  {re.escape(str(here))}/photos/.*png", other)

    def test_a_line_is_drawn_below_what_is_claimed(self, run, here):
        turned = Pillow.open(here / "photos" / "b.png").rotate(4)
        turned.save(here / "turned.png")
        _, best, line, second, *_ = run("search", "photos.faemb", "turned.png").out.splitlines()
        assert re.fullmatch(rf"   1\. same  99 % +{SCORE}  {re.escape(str(here))}/photos/b\.png", best)
        assert line == "  not confirmed (confidence below 50 %):"
        assert second.startswith("   2.        ")

    def test_only_what_is_sure(self, run, here):
        ended = run("search", "photos.faemb", "photos/b.png", "--least-confidence", "0.9")
        nothing, only = ended.out.splitlines()[1:]
        assert nothing == "  nothing found: no other image has a confidence of 0.9 or more"
        assert only == f"      same  99 %  1.000  {here / 'photos' / 'b.png'}  (the query itself)"

    def test_where_features_are_not_kept_the_cure_is_told(self, run, here):
        run("index", "photos", "--out", "lean.faemb", "--model", "tiny.model", "--no-features")
        *_, note = run("search", "lean.faemb", "photos/b.png").out.splitlines()
        assert note == (
            "  (candidates without a comparison have the confidence of the vectors alone: the local features of 4 of "
            "them are not kept; index the images into a new collection, without --no-features)"
        )
        run("search", "lean.faemb", "photos/b.png", "--html", "found.html")
        page = Page((here / "found.html").read_text(encoding="utf-8"))
        assert all("index the images into a new collection" in reasons for reasons in page.texts("details"))

    def test_nothing_is_found(self, run, here):
        picture(here / "other.png", 77)
        for limits, words in (
            (["--least-confidence", "0.9"], "no image has a confidence of 0.9 or more"),
            (["--threshold", "0.95"], "no image has a similarity of 0.95 or more"),
            (
                ["--least-confidence", "0.9", "--threshold", "0.95"],
                "no image has a confidence of 0.9 or more and a similarity of 0.95 or more",
            ),
        ):
            told = run("search", "photos.faemb", "other.png", *limits).out.splitlines()
            assert told[1:] == [f"  nothing found: {words}"]

    def test_nothing_is_found_where_there_is_nothing_else(self, run, here):
        run("remove", "photos.faemb", "photos/a.png", "photos/b.png", "photos/trip")
        _, nothing, itself = run("search", "photos.faemb", "photos/c.png").out.splitlines()
        assert nothing == "  nothing found: there is no other image to compare"
        assert itself.endswith("(the query itself)")

    def test_by_the_vectors_alone(self, run, here):
        _, itself, best, *_ = run("search", "photos.faemb", "photos/b.png", "--verify", "0").out.splitlines()
        assert itself == f"       1.000  {here / 'photos' / 'b.png'}  (the query itself)"
        assert re.fullmatch(rf"   1\. +{SCORE}  {re.escape(str(here))}/photos/.*png", best)

    def test_a_copy_of_the_query_is_an_answer_and_says_so(self, run, here):
        shutil.copy(here / "photos" / "b.png", here / "b.png")
        _, best, *_ = run("search", "photos.faemb", "b.png", "--top", "2").out.splitlines()
        assert best == f"   1. same  99 %  1.000  {here / 'photos' / 'b.png'}  (copy of the query)"

    def test_for_programs(self, run, here):
        ended = run("search", "photos.faemb", "photos/b.png", "photos/trip/d.png", "--json")
        assert (ended.code, ended.err) == (0, "")
        found = json.loads(ended.out)
        assert found.keys() == {"answers", "failed"}
        assert found["failed"] == []
        answers = found["answers"]
        assert [answer["query"] for answer in answers] == ["photos/b.png", "photos/trip/d.png"]
        expected = [len(HessianAffine(max_features=40).extract(here / answer["query"])) for answer in answers]
        assert [answer["features"] for answer in answers] == expected
        for answer in answers:
            assert len(answer["hits"]) == 4
            own = {"path": str(here / answer["query"]), "similarity": 1, "itself": True, "copy_of_query": False}
            sure = {"confidence": 1.0, "verdict": "same", "verified": True}
            assert (own | sure).items() <= answer["hits"][0].items()
            assert answer["hits"][0]["agreeing"] == answer["hits"][0]["matches"] > 0
            assert np.allclose(answer["hits"][0]["transform"], np.eye(3), atol=1e-3)
            assert answer["hits"][0]["evidence"] > 20
            for region in answer["hits"][0]["overlap"].values():
                assert np.allclose(np.ptp(region, axis=0), (119, 89), atol=1.5)
            assert not any(hit["itself"] or hit["copy_of_query"] for hit in answer["hits"][1:])
            confidences = [hit["confidence"] for hit in answer["hits"]]
            assert confidences == sorted(confidences, reverse=True)

    def test_an_image_without_features_has_no_score(self, run, here):
        run("add", "photos.faemb", blank(here / "photos" / "flat.png"))
        *_, last = run("search", "photos.faemb", "photos/a.png").out.splitlines()
        assert last == f"   4.   none  {here / 'photos' / 'flat.png'}"
        ((*_, hit),) = (
            each["hits"] for each in json.loads(run("search", "photos.faemb", "photos/a.png", "--json").out)["answers"]
        )
        nothing = dict.fromkeys(
            ["similarity", "confidence", "verdict", "evidence", "matches", "agreeing", "transform", "overlap"]
        )
        assert nothing.items() <= hit.items()
        assert hit["path"] == str(here / "photos" / "flat.png")
        assert not hit["verified"]

    def test_a_query_without_features_finds_nothing(self, run, here):
        blank(here / "flat.png")
        ended = run("search", "photos.faemb", "flat.png")
        assert ended == (
            0,
            "flat.png has no local features, so nothing is similar to it; give a larger or more detailed picture\n",
            "",
        )
        ended = run("search", "photos.faemb", "flat.png", "--box", "5,5,30,30")
        assert ended.out == (
            "flat.png has no local features in the box 5,5,30,30, so nothing is similar to it; "
            "give a larger or more detailed picture or another box\n"
        )
        answers = json.loads(run("search", "photos.faemb", "flat.png", "--json").out)["answers"]
        assert answers == [{"query": "flat.png", "features": 0, "hits": [], "note": ""}]

    def test_top_and_threshold(self, run):
        assert len(run("search", "photos.faemb", "photos/a.png", "--top", "1").out.splitlines()) == 4
        assert len(run("search", "photos.faemb", "photos/a.png", "--top", "99").out.splitlines()) == 6
        assert len(run("search", "photos.faemb", "photos/a.png", "--threshold", "0.99").out.splitlines()) == 3

    def test_a_box(self, run):
        whole, part = (
            json.loads(run("search", "photos.faemb", "photos/a.png", "--json", *options).out)["answers"][0]
            for options in ([], ["--box", "0,0,80,119"])
        )
        assert 0 < part["features"] < whole["features"]

    @pytest.mark.parametrize("kind", ["exact", "rabitq", "hnsw", "ivf-pq", "binary"])
    def test_every_index(self, run, kind):
        pytest.importorskip("faiss")
        expected = run("search", "photos.faemb", "photos/a.png")
        assert run("search", "photos.faemb", "photos/a.png", "--index", kind) == expected

    def test_one_broken_query_among_good_ones(self, run, here):
        (here / "broken.png").write_text("no image")
        ended = run("search", "photos.faemb", "broken.png", "photos/a.png", "gone.png", "--json")
        assert ended.code == 3
        found = json.loads(ended.out)
        assert [answer["query"] for answer in found["answers"]] == ["photos/a.png"]
        broken, gone = warnings(ended)
        assert "broken.png" in broken
        assert "gone.png" in gone
        assert found["failed"] == [{"path": "broken.png", "reason": broken}, {"path": "gone.png", "reason": gone}]

    def test_nothing_but_broken_queries(self, run, here):
        (here / "broken.png").write_text("no image")
        for options in ([], ["--quiet"]):
            ended = run("search", "photos.faemb", "broken.png", "gone.png", *options)
            assert (ended.code, ended.out) == (1, "")
            assert len(warnings(ended)) == 2

    def test_a_page(self, run, here):
        ended = run("search", "photos.faemb", "photos/a.png", "--box", "0,0,90,80", "--html", "found.html")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.endswith("written to found.html\n")
        page = (here / "found.html").read_text(encoding="utf-8")
        assert "Search in photos.faemb" in page
        assert all(Path(name).name in page for name in NAMES)

    def test_quiet_prints_nothing(self, run, here):
        assert run("search", "photos.faemb", "photos/a.png", "-q") == (0, "", "")
        assert run("search", "photos.faemb", "photos/a.png", "--quiet", "--html", "found.html") == (0, "", "")
        assert (here / "found.html").is_file()

    def test_names_of_any_kind_are_printed(self, run, here):
        name = "naïve 写真 😀.png"
        picture(here / "photos" / name, 50)
        run("add", "photos.faemb", "photos")
        assert f"photos/{name}" in run("search", "photos.faemb", f"photos/{name}", "--top", "1").out
        (answer,) = json.loads(run("search", "photos.faemb", f"photos/{name}", "--json").out)["answers"]
        assert answer["hits"][0]["path"] == str(here / "photos" / name)

    def test_a_name_that_is_no_text_is_escaped(self, run, here):
        try:
            image = picture(here / "photos" / os.fsdecode(b"\xff.png"), 50)
        except OSError:
            pytest.skip("this file system has names that are text only")
        run("add", "photos.faemb", "photos")
        assert r"photos/\udcff.png" in run("search", "photos.faemb", image, "--top", "1").out
        (answer,) = json.loads(run("search", "photos.faemb", image, "--json").out)["answers"]
        assert answer["hits"][0]["path"] == str(image)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["gone.faemb", "photos/a.png"], "no collection at gone.faemb; make one with: faemb index IMAGES --out"),
            (["photos.faemb", "gone.png"], "gone.png"),
            (["photos.faemb", "photos"], "photos"),
            (["photos.faemb", "photos/a.png", "--top", "0"], "--top is 0"),
            (["photos.faemb", "photos/a.png", "--threshold", "2"], "--threshold is 2.0"),
            (["photos.faemb", "photos/a.png", "--index", "tree"], "--index is 'tree'"),
            (["photos.faemb", "photos/a.png", "--box", "1,2,3"], "the box '1,2,3' cannot be read"),
            (["photos.faemb", "photos/a.png", "--box", "5,5,5,9"], "is empty"),
            (["photos.faemb", "photos/a.png", "--box", "500,5,600,9"], "lies outside the image"),
            (["photos.faemb", "photos/a.png", "--html", "found.pdf"], "ends in .html"),
            (["photos.faemb", "photos/a.png", "--html", "gone/found.html"], "the folder gone does not exist"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_one_line(self, run, arguments, words):
        assert_mistake(run("search", *arguments), words)

    def test_a_collection_that_is_still_empty(self, run):
        with Collection.create("new.faemb", new_tiny_model()):
            pass
        assert_mistake(run("search", "new.faemb", "photos/a.png"), "holds no encoded images yet; run: faemb add")

    def test_an_extra_that_is_missing(self, run, monkeypatch):
        monkeypatch.setitem(sys.modules, "faiss", None)
        words = r'needs the extra \'faiss\': pip install "faemb\[faiss\]"'
        assert_mistake(run("search", "photos.faemb", "photos/a.png", "--index", "hnsw"), words)


class TestDuplicates:
    @pytest.fixture(autouse=True)
    def with_a_copy(self, here, run):
        shutil.copy(here / "photos" / "a.png", here / "photos" / "copy.png")
        run("add", "photos.faemb", "photos")

    def test_for_people(self, run, here):
        ended = run("duplicates", "photos.faemb", "--threshold", "0.95")
        assert (ended.code, ended.err) == (0, "")
        lines = ended.out.splitlines()
        assert lines[0] == "1. copies: 2 images, similarity 1.000"
        size = rf"120 x 90 pixels, {SIZE}, changed \d{{4}}-\d\d-\d\d"
        assert re.fullmatch(rf"   keep  {re.escape(str(here))}/photos/\w+\.png  {size}  \([a-z ,]+\)", lines[1])
        assert re.fullmatch(rf"         {re.escape(str(here))}/photos/\w+\.png  {size}", lines[2])
        assert lines[3] == "1 group"

    def test_for_programs(self, run, here):
        ended = run("duplicates", "photos.faemb", "--threshold", "1", "--json")
        assert (ended.code, ended.err) == (0, "")
        (group,) = json.loads(ended.out)
        assert group["kind"] == "copies"
        assert group["similarity"] == {"smallest": 1, "largest": 1, "all_pairs": True}
        assert sorted(image["path"] for image in group["images"]) == [
            str(here / "photos" / name) for name in ("a.png", "copy.png")
        ]
        first = group["images"][0]
        assert group["keep"] == first["path"]
        assert group["reason"]
        assert (first["width"], first["height"], first["taken"]) == (120, 90, False)
        assert first["bytes"] == (here / "photos" / "a.png").stat().st_size
        assert datetime.fromisoformat(first["date"]).year > 2000

    @pytest.mark.parametrize("option", ["--same-thing", "--mirrored"])
    def test_copies_are_found_with_more_too(self, run, option):
        (group,) = json.loads(run("duplicates", "photos.faemb", option, "--json").out)
        assert (group["kind"], len(group["images"])) == ("copies", 2)

    def test_by_similarity_alone(self, run):
        lines = run("duplicates", "photos.faemb", "--no-verify", "--threshold", "1").out.splitlines()
        assert lines[0] == "1. similar: 2 images, similarity 1.000"

    def test_what_could_not_be_verified_is_said(self, run):
        run("index", "photos", "--out", "lean.faemb", "--no-features")
        ended = run("duplicates", "lean.faemb", "--threshold", "1")
        assert "the local features of 2 images are not kept; index" in ended.err
        assert ended.out.startswith("1. similar: 2 images")

    def test_none(self, run):
        run("remove", "photos.faemb", "photos/copy.png")
        assert run("duplicates", "photos.faemb", "--threshold", "0.95").out == "0 groups\n"
        assert json.loads(run("duplicates", "photos.faemb", "--threshold", "0.95", "--json").out) == []

    def test_a_page_and_quiet(self, run, here):
        assert run("duplicates", "photos.faemb", "-q", "--html", "groups.html") == (0, "", "")
        page = (here / "groups.html").read_text(encoding="utf-8")
        assert "Duplicates in photos.faemb" in page
        assert "copy.png" in page
        assert run("duplicates", "photos.faemb", "--html", "groups.html").out.endswith("written to groups.html\n")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["gone.faemb"], "no collection at gone.faemb"),
            (["photos.faemb", "--threshold", "1.5"], "--threshold is 1.5"),
            (["photos.faemb", "--index", "tree"], "--index is 'tree'"),
            (["photos.faemb", "--html", "groups.txt"], "ends in .html"),
            (["photos.faemb", "--no-verify", "--same-thing"], "--same-thing is set; expected local features"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_one_line(self, run, options, words):
        assert_mistake(run("duplicates", *options), words)


# Vectors and models


class TestStores:
    """What commands say of servers that are not there; `make test-milvus` has one."""

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["copy", "photos.faemb", "milvus://127.0.0.1:1/photos"], "127.0.0.1:1 does not answer"),
            (["copy", "photos.faemb", "embedded"], "are there already"),
            (["copy", "photos.faemb", "elsewhere"], "ADDRESS is 'elsewhere'; expected milvus://HOST:PORT/NAME"),
            (
                ["copy", "photos.faemb", "embedded", "--forget"],
                "ADDRESS is 'embedded'; expected milvus://HOST:PORT/NAME",
            ),
            (
                ["copy", "photos.faemb", "milvus://gone/p", "--forget", "--store", "milvus://here/p"],
                "--forget asks no server; leave out --store",
            ),
            (["copy", "photos.faemb", "embedded", "--store", "here"], "--store is 'here'; expected milvus://"),
            (["copy", "photos.faemb", "milvus://gone/p", "--forget"], "stores that it has left: there are none"),
            (["search", "photos.faemb", "photos/a.png", "--store", "milvus://here/photos"], "faemb copy photos.faemb"),
            (
                ["index", "photos", "--out", "new.faemb", "--store", "milvus://127.0.0.1:1/p"],
                "127.0.0.1:1 does not answer",
            ),
        ],
        ids=[
            "away",
            "same",
            "no address",
            "none to forget",
            "two addresses",
            "no store",
            "nothing to forget",
            "embedded",
            "index",
        ],
    )
    def test_mistakes(self, run, here, arguments, words):
        assert_mistake(run(*arguments), words)
        assert not (here / "new.faemb").exists()
        assert run("check", "photos.faemb", "--quiet").code == 0

    @pytest.mark.parametrize(
        "arguments",
        [["relearn"], ["explain", "photos/a.png", "photos/b.png"], ["export", "--out", "out.npz"],
         ["relocate", "photos", "elsewhere"], ["copy", "embedded"]],
        ids=lambda arguments: arguments[0],
    )  # fmt: skip
    def test_the_new_address_of_a_server_is_asked(self, run, arguments):
        with closing(Catalogue(Path("photos.faemb/catalogue.sqlite"))) as catalogue, catalogue.change():
            for name, value in (("store", "milvus://127.0.0.1:2/photos"), ("store_id", "me"), ("table", "1")):
                catalogue.set(name, value)
        name, *more = arguments
        ended = run(name, "photos.faemb", *more, "--store", "milvus://127.0.0.1:1/photos")
        assert_mistake(ended, r"127\.0\.0\.1:1 does not answer")

    @pytest.mark.parametrize("left", ["coming", "left"], ids=["of a copy that was stopped", "of a copy that was made"])
    def test_one_whose_server_is_gone_is_forgotten(self, run, left):
        address = "milvus://127.0.0.1:19530/photos"
        with closing(Catalogue(Path("photos.faemb/catalogue.sqlite"))) as catalogue, catalogue.change():
            for name, value in ((f"{left}_store", address), (f"{left}_store_id", "me"), ("left_tried", "1")):
                catalogue.set(name, value)
        command = f"faemb copy photos.faemb {address} --forget"
        assert f"gone for good: {command}\n" in run("info", "photos.faemb").out
        assert_mistake(run("copy", "photos.faemb", "milvus://other/photos", "--forget"), f"has left: {address}$")
        sentence = f"{address} is forgotten; nothing was deleted there\n"
        assert run(*command.split()[1:]) == (0, sentence, "")
        assert "not in use any more" not in run("info", "photos.faemb").out
        with closing(Catalogue(Path("photos.faemb/catalogue.sqlite"))) as catalogue:
            assert not [name for name in catalogue.about() if name.startswith(("coming", "left_store"))]


class TestExport:
    @pytest.mark.parametrize("form", ["npz", "fvecs", "faiss", "hloc-h5", "parquet"])
    def test_every_format(self, run, here, form):
        ended = run("export", "photos.faemb", "--format", form, "--out", f"out.{form}")
        assert ended == (0, f"vectors of 4 images written to out.{form}\n", "")
        assert read_back(here / f"out.{form}", form).shape[0] == 4

    def test_npz_is_written_by_default(self, run, here):
        assert run("export", "photos.faemb", "--out", "out.npz", "--quiet") == (0, "", "")
        assert read_back(here / "out.npz", "npz").shape[0] == 4

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["gone.faemb", "--out", "out.npz"], "no collection at gone.faemb"),
            (["photos.faemb", "--out", "out.csv", "--format", "csv"], "--format is 'csv'; expected one of npz, fvecs"),
            (["photos.faemb", "--out", "gone/out.npz"], "the folder gone does not exist; make it first"),
            (["photos.faemb", "--out", "photos"], "it is a folder"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_one_line(self, run, options, words):
        assert_mistake(run("export", *options), words)


def read_back(path: Path, form: str) -> np.ndarray:
    """The vectors in a file, as another tool reads it."""
    if form == "npz":
        with np.load(path) as held:
            return held["vectors"]
    if form == "parquet":
        return np.stack(pytest.importorskip("pyarrow.parquet").read_table(path)["vector"].to_numpy())
    if form == "fvecs":
        return read_vecs(path)
    if form == "faiss":
        faiss = pytest.importorskip("faiss")
        index = faiss.read_index(str(path))
        return index.reconstruct_n(0, index.ntotal)
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        return np.array([file[name]["global_descriptor"][()] for name in NAMES])


class TestFitAndEncode:
    def test_a_model_is_made_and_used(self, run, here):
        blank(here / "photos" / "flat.png")
        ended = run("fit", "photos", "--out", "new.model", "--max-features", "70")
        assert (ended.code, ended.err) == (0, "")
        assert re.fullmatch(r"learned from 4 images in \d+\.\d s; new\.model gives \d+ dimensions\n", ended.out)
        model = Model.load("new.model")
        assert model.is_fitted
        ended = run("encode", "photos", "--model", "new.model", "--out", "out.npz")
        assert ended.code == 0
        assert warnings(ended) == [f"{here / 'photos' / 'flat.png'} has no local features, so it has no vector"]
        assert re.fullmatch(r"vectors of 4 images written to out\.npz in \d+\.\d s\n", ended.out)
        with np.load("out.npz") as held:
            assert held["vectors"].shape == (4, model.dimension)
            assert sorted(held["paths"]) == [str(here / "photos" / name) for name in NAMES]

    def test_for_programs(self, run):
        learned = json.loads(run("fit", "photos", "--out", "new.model", "--max-features", "70", "--json").out)
        assert (learned["added"], learned["dimension"]) == (4, Model.load("new.model").dimension)
        encoded = json.loads(run("encode", "photos", "--model", "new.model", "--out", "out.npz", "--json").out)
        assert (encoded["added"], encoded["failed"], encoded["without_features"]) == (4, [], [])

    def test_quiet(self, run):
        assert run("encode", "photos/a.png", "--model", "tiny.model", "--out", "out.npz", "-q") == (0, "", "")

    def test_broken_images_are_reported(self, run, here):
        (here / "broken.png").write_text("no image")
        ended = run("encode", "broken.png", "photos", "--model", "tiny.model", "--out", "out.npz")
        assert ended.code == 3
        assert len(warnings(ended)) == 1
        assert ended.out.startswith("vectors of 4 images")
        ended = run("encode", "broken.png", "--model", "tiny.model", "--out", "out.npz")
        assert ended.code == 1
        assert len(warnings(ended)) == 1

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["fit", "gone", "--out", "new.model"], "there is no file or folder gone"),
            (["fit", "photos", "--out", "gone/new.model"], "gone does not exist; make it first"),
            (["fit", "photos", "--out", "photos"], "it is a folder"),
            (["fit", "photos", "--out", "new.model", "--preset", "huge"], "no preset is called 'huge'"),
            (["fit", "photos/a.png", "--out", "new.model", "--max-features", "2"], "too few to learn from"),
            (["fit", "flat.png", "--out", "new.model"], "none of the images has local features"),
            (["encode", "photos", "--model", "gone", "--out", "out.npz"], "no model at gone"),
            (["encode", "photos", "--model", "photos/a.png", "--out", "out.npz"], "is not a faemb model"),
            (["encode", "gone", "--model", "tiny.model", "--out", "out.npz"], "there is no file or folder gone"),
            (["encode", "photos", "--model", "tiny.model", "--out", "gone/out.npz"], "gone does not exist"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_one_line(self, run, here, arguments, words):
        blank(here / "flat.png")
        assert_mistake(run(*arguments), words)
        assert not (here / "new.model").exists()


class TestDevice:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["add", "photos.faemb", "more"],
            ["update", "photos.faemb"],
            ["check", "photos.faemb", "--repair"],
            ["search", "photos.faemb", "photos/a.png"],
            ["index", "photos", "--out", "new.faemb", "--model", "tiny.model"],
            ["fit", "photos", "--out", "new.model"],
            ["encode", "photos", "--model", "tiny.model", "--out", "out.npz"],
        ],
        ids=lambda arguments: arguments[0],
    )
    def test_one_that_is_not_there(self, run, here, arguments):
        picture(here / "more" / "x.png", 20)
        ended = run(*arguments, "--device", "gpu9")
        assert_mistake(ended, r"device='gpu9' (needs the extra 'torch'|here)")
        assert not any((here / name).exists() for name in ("new.faemb", "new.model", "out.npz"))

    def test_learning_adding_and_searching_by_pytorch(self, run, here, monkeypatch):
        """Vectors are those of NumPy but for rounding."""
        pytest.importorskip("torch")
        used: list[str] = []

        def on_device(array: Any, device: str) -> Any:
            used.append(device)
            return arrays.on_device(array, device)

        monkeypatch.setattr(encoder, "on_device", on_device)
        picture(here / "more" / "x.png", 20)
        for command in (
            ["fit", "photos", "--out", "new.model", "--max-features", "70"],
            ["index", "photos", "--out", "learned.faemb", "--max-features", "70"],
            ["index", "photos", "--out", "new.faemb", "--model", "new.model"],
            ["add", "new.faemb", "more"],
            ["search", "new.faemb", "more/x.png", "--json"],
            ["encode", "photos", "--model", "new.model", "--out", "out.npz"],
        ):
            used.clear()
            ended = run(*command, "--device", "torch:cpu")
            assert (ended.code, ended.err) == (0, "")
            assert set(used) == {"torch:cpu"}
            if command[0] == "search":
                one, other = (json.loads(text)["answers"][0]["hits"] for text in (ended.out, run(*command).out))
                assert [hit["path"] for hit in one] == [hit["path"] for hit in other]
                first, second = ([hit["similarity"] for hit in hits] for hits in (one, other))
                np.testing.assert_allclose(first, second, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["index", "photos"], "Missing option '--out'"),
        (["index", "--out", "new.faemb"], "Missing argument 'IMAGES'"),
        (["index", "photos", "--out", "new.faemb", "--jobs", "many"], "Invalid value for '--jobs'"),
        (["add", "photos.faemb"], "Missing argument 'IMAGES'"),
        (["remove", "photos.faemb"], "Missing argument 'IMAGE'"),
        (["update"], "Missing argument 'COLLECTION'"),
        (["info", "photos.faemb", "more"], "unexpected extra argument"),
        (["check", "photos.faemb", "--colour"], "No such option: --colour"),
        (["search", "photos.faemb"], "Missing argument 'QUERY'"),
        (["search", "photos.faemb", "photos/a.png", "--top", "1.5"], "Invalid value for '--top'"),
        (["duplicates", "photos.faemb", "--threshold", "much"], "Invalid value for '--threshold'"),
        (["export", "photos.faemb"], "Missing option '--out'"),
        (["fit", "photos"], "Missing option '--out'"),
        (["encode", "photos", "--out", "out.npz"], "Missing option '--model'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_is_explained(run, arguments, words):
    assert_misuse(run(*arguments), words)
