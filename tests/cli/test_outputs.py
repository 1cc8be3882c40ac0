"""Outputs replace only what faemb wrote; pages are shown; what is left out is remembered and told."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Run, assert_mistake, commands

from faemb.collection import Collection, Model
from faemb.errors import InputError
from faemb.features import HessianAffine, job
from faemb.features.files import write_npz
from faemb.pages.document import render
from faemb.runtime.storage import make_folder
from made_up_runs import run as made_up_run
from pictures import picture
from processes import COMMAND, PATIENCE, one_after_the_other
from small_collections import make_collection, names_in, tiny_model, work_here

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, their collection, a model, features of an image, and the folder of a run."""
    folder = make_collection(tmp_path_factory.mktemp("outputs"), ["a.png", "b.png", "trip/c.png"])
    tiny_model().save(folder / "tiny.model")
    write_npz(folder / "a.npz", HessianAffine(max_features=5).extract(folder / "photos" / "a.png"))
    (folder / "run").mkdir()
    made_up_run().save(folder / "run")
    return folder


@pytest.fixture
def here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    work_here(monkeypatch)
    monkeypatch.setattr(job, "spread", one_after_the_other)
    return commands(monkeypatch, capfd)


WRITERS = {
    "search": (["search", "photos.faemb", "photos/a.png", "--html"], "out.html"),
    "explain": (["explain", "photos.faemb", "photos/a.png", "photos/b.png", "--html"], "out.html"),
    "explain-out": (["explain", "photos.faemb", "photos/a.png", "photos/b.png", "--out"], "out.png"),
    "duplicates": (["duplicates", "photos.faemb", "--html"], "out.html"),
    "leaderboard": (["leaderboard", "run", "--out"], "out.html"),
    "show-features": (["show-features", "photos/a.png", "--max-features", "5", "--out"], "out.jpg"),
    "export": (["export", "photos.faemb", "--out"], "out.npz"),
    "export-h5": (["export", "photos.faemb", "--format", "hloc-h5", "--out"], "out.h5"),
    "encode": (["encode", "photos", "--model", "tiny.model", "--out"], "out.npz"),
    "fit": (["fit", "photos", "--max-features", "70", "--out"], "out.model"),
    "convert": (["convert-features", "a.npz", "--out"], "out.npz"),
    "convert-h5": (["convert-features", "a.npz", "--out"], "out.h5"),
}
UNMARKED = {
    "fvecs": (["export", "photos.faemb", "--format", "fvecs", "--out"], "out.fvecs"),
    "faiss": (["export", "photos.faemb", "--format", "faiss", "--out"], "out.faiss"),
}


class TestExistingFiles:
    @pytest.mark.parametrize(("command", "name"), WRITERS.values(), ids=WRITERS)
    def test_a_file_of_the_user_is_replaced_only_if_that_is_said(self, run, here, command, name):
        theirs = (here / "photos" / "b.png").read_bytes()
        (here / name).write_bytes(theirs)
        words = f"^faemb: {name} exists and was not written by faemb; give another name, or --overwrite$"
        assert_mistake(run(*command, name), words)
        assert (here / name).read_bytes() == theirs
        assert run(*command, name, "--overwrite", "-q").code == 0
        assert (here / name).read_bytes() != theirs

    @pytest.mark.parametrize(("command", "name"), WRITERS.values(), ids=WRITERS)
    def test_an_earlier_output_is_replaced(self, run, command, name):
        assert [run(*command, name, "-q").code for _ in range(2)] == [0, 0]

    @pytest.mark.parametrize(("command", "name"), UNMARKED.values(), ids=UNMARKED)
    def test_a_file_that_does_not_say_who_wrote_it_is_kept(self, run, command, name):
        pytest.importorskip("faiss")
        assert run(*command, name, "-q").code == 0
        assert_mistake(run(*command, name), f"{name} exists and may not have been written by faemb; give another name")
        assert run(*command, name, "--overwrite", "-q").code == 0

    @pytest.mark.parametrize(("command", "name"), (WRITERS | UNMARKED).values(), ids=WRITERS | UNMARKED)
    def test_nothing_is_written_into_a_collection(self, run, here, command, name):
        before = sorted(os.listdir("photos.faemb"))
        for place in (f"photos.faemb/{name}", f"link/{name}"):
            (here / "link").unlink(missing_ok=True)
            (here / "link").symlink_to("photos.faemb")
            words = f"cannot write {place}: .*photos.faemb is a collection; give a name outside of it"
            assert_mistake(run(*command, place, "--overwrite"), words)
        assert sorted(os.listdir("photos.faemb")) == before

    def test_no_folder_is_made_in_a_collection(self, run, here):
        words = "photos.faemb is a collection; give a name outside of it"
        assert_mistake(run("features", "photos", "--out", "photos.faemb/features"), words)
        assert_mistake(run("convert-features", "a.npz", "--out", "photos.faemb/features"), words)
        assert_mistake(run("demo", "--out", "photos.faemb/demo"), words)
        with pytest.raises(InputError, match=words):
            make_folder(here / "photos.faemb" / "benchmark")

    def test_it_is_refused_before_any_work(self, run, here, monkeypatch):
        def work(*_: Any) -> None:
            raise AssertionError("an image was read")

        monkeypatch.setattr(HessianAffine, "describe", work)
        for command, name in WRITERS.values():
            (here / name).write_text("mine")
            assert_mistake(run(*command, name), "was not written by faemb")

    def test_a_folder_of_features_keeps_the_files_of_others(self, run, here):
        (here / "out").mkdir()
        np.savez(here / "out" / "a.npz", theirs=np.zeros(3))
        assert_mistake(run("convert-features", "a.npz", "--out", "out"), "a.npz exists and was not written by faemb")
        assert run("convert-features", "a.npz", "--out", "out", "--overwrite", "-q").code == 0
        assert run("convert-features", "a.npz", "--out", "out", "-q").code == 0

    def test_links_and_pipes(self, run, here):
        (here / "link.html").symlink_to("real.html")
        (here / "real.html").write_text(render("groups.html", title="", note="", count=0, groups=[]))
        words = "link.html exists and was not written by faemb"
        assert_mistake(run("duplicates", "photos.faemb", "--html", "link.html"), words)
        os.mkfifo(here / "pipe.html")
        for options in ([], ["--overwrite"]):
            ended = run("duplicates", "photos.faemb", "--html", "pipe.html", *options)
            assert_mistake(ended, "pipe.html: it exists and is not a plain file; give another name")

    def test_a_file_of_another_tool_is_no_file_of_ours(self, run):
        with h5py.File("out.h5", "w") as file:
            file.attrs["made_by"] = "somebody"  # of variable length
        np.savez("out.npz", vectors=np.zeros((1, 2)), paths=np.array(["a"]))
        for form, name in (("hloc-h5", "out.h5"), ("npz", "out.npz")):
            assert_mistake(run("export", "photos.faemb", "--format", form, "--out", name), "not written by faemb")

    def test_models_in_python(self, here):
        with pytest.raises(ValueError, match=r"a\.npz exists and was not written by faemb"):
            tiny_model().save("a.npz")
        tiny_model().save("a.npz", overwrite=True)
        assert Model.load("a.npz").is_fitted


class TestOpen:
    """In real processes: which browsers there are is found out once in a process."""

    @staticmethod
    def process(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(COMMAND), "leaderboard", "run", "--out", "out.html", *arguments]
        kept = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
        return subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, env={**kept, **environment}
        )

    def test_the_browser_gets_the_page(self, here):
        browser = here / "browser"
        browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {here}/shown\n')
        browser.chmod(0o755)
        ended = self.process("--open", BROWSER=f"{browser} %s")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert (here / "shown").read_text() == (here / "out.html").as_uri()

    def test_without_a_browser_it_says_so(self, here):
        ended = self.process("--open", PATH="/nowhere")
        assert ended.returncode == 0
        assert ended.stderr == "faemb: there is no browser to show out.html; open it on a machine that has one\n"
        assert (here / "out.html").is_file()

    @pytest.mark.parametrize("command", [["search", "photos.faemb", "photos/a.png"], ["duplicates", "photos.faemb"]])
    def test_there_must_be_a_page(self, run, command):
        assert_mistake(run(*command, "--open"), "give its name as well: --html FILE")


class TestExclude:
    def test_it_is_remembered_with_the_folder(self, run, here):
        assert (
            run("index", "photos", "--out", "new.faemb", "--model", "tiny.model", "--exclude", "trip", "-q").code == 0
        )
        picture(here / "photos" / "trip" / "new.png", 7)
        picture(here / "photos" / "new.png", 8)
        assert run("update", "new.faemb").out.startswith("1 image added, 2 unchanged in ")
        with Collection.open("new.faemb") as made:
            assert names_in(made) == {"../photos/a.png", "../photos/b.png", "../photos/new.png"}
            assert made.info().excluded == {str(here / "photos"): ["trip"]}
        assert f"  folder {here / 'photos'}, without trip\n" in run("info", "new.faemb").out

    def test_the_last_command_that_names_a_folder_decides(self, run, here):
        run("index", "photos", "--out", "new.faemb", "--model", "tiny.model", "--exclude", "trip", "--exclude", "b.*")
        picture(here / "more" / "x.png", 9)
        run("add", "new.faemb", "more")
        assert run("update", "new.faemb").out.startswith("no images added, 2 unchanged in ")
        assert run("add", "new.faemb", "photos").out.startswith("2 images added, 1 unchanged in ")
        with Collection.open("new.faemb") as made:
            assert made.info().excluded == {}

    def test_excluding_removes_nothing(self, run):
        assert run("add", "photos.faemb", "photos", "--exclude", "trip").code == 0
        assert run("update", "photos.faemb").out.startswith("no images added, 2 unchanged in ")
        with Collection.open("photos.faemb") as opened:
            assert len(opened) == 3

    @pytest.mark.parametrize(
        ("command", "words"),
        [
            (["fit", "photos", "--out", "new.model", "--max-features", "70"], "learned from 2 images"),
            (["encode", "photos", "--model", "tiny.model", "--out", "out.npz"], "vectors of 2 images"),
            (["features", "photos", "--out", "features"], "2 images with"),
        ],
        ids=["fit", "encode", "features"],
    )
    def test_every_command_that_searches_folders(self, run, command, words):
        assert run(*command, "--exclude", "tr?p/*.png").out.startswith(words)


class TestPassedOver:
    COMMANDS = (
        ["index", "photos", "--out", "new.faemb", "--model", "tiny.model"],
        ["add", "photos.faemb", "photos"],
        ["update", "photos.faemb"],
        ["fit", "photos", "--out", "new.model", "--max-features", "70"],
        ["encode", "photos", "--model", "tiny.model", "--out", "out.npz"],
        ["features", "photos", "--out", "features"],
    )

    @pytest.fixture(autouse=True)
    def other_files(self, here: Path) -> None:
        for name in ("1.cr2", "2.NEF", "3.mp4"):
            (here / "photos" / name).touch()

    @pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
    def test_it_is_told(self, run, command):
        ended = run(*command)
        assert (ended.code, ended.err) == (0, "")
        assert "\npassed over 2 RAW files (.cr2, .nef) and 1 video (.mp4): faemb reads JPEG, " in ended.out

    @pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
    def test_for_programs(self, run, command):
        told = json.loads(run(*command, "--json").out)
        assert told["passed_over"] == {".cr2": 1, ".mp4": 1, ".nef": 1}
        assert told["failed"] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["add", "photos.faemb", "photos"], "stopped; run the same command again to go on"),
        (["update", "photos.faemb"], "stopped; run the same command again to go on"),
        (["search", "photos.faemb", "photos/a.png"], "stopped"),
        (["fit", "photos", "--out", "new.model"], "stopped"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_ctrl_c(run, here, monkeypatch, command, words):
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    picture(here / "photos" / "new.png", 99)
    monkeypatch.setattr(HessianAffine, "describe", stop)
    assert run(*command) == (130, "", f"faemb: {words}\n")


def test_partly_read_images_to_learn_from(run, here):
    (here / "photos" / "broken.png").write_text("no image")
    ended = run("fit", "photos", "--out", "new.model", "--max-features", "70", "--json")
    assert ended.code == 3
    assert [each["path"] for each in json.loads(ended.out)["failed"]] == ["photos/broken.png"]
    for command in (["add", "photos.faemb", "photos"], ["update", "photos.faemb"]):
        assert run(*command, "-q").code == 3


def test_completion_knows_commands_and_options(here):
    def completed(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_FAEMB_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        done = subprocess.run(  # noqa: S603
            [str(COMMAND)], capture_output=True, text=True, timeout=PATIENCE, check=True, env={**os.environ, **asked}
        )
        return done.stdout.split()

    assert completed("faemb sea") == ["search"]
    assert "--html" in completed("faemb search --h")
    assert completed("faemb index pho") == []  # the shell itself completes names of files
