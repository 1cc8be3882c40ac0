"""Many images into a folder: names, what is done again and what is not, broken images, and runs that are killed.

Where worker processes are not the point, `serial` does their work here, one image after the other.
"""

import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from faemb.errors import FaembError, InputError, LimitError, MissingExtraError
from faemb.features import Extractor, HessianAffine, Image, LocalFeatures, extract_folder, job, read_features
from faemb.features.files import read_npz, read_npz_header
from faemb.features.job import ExtractToFile, Target, content_hash
from faemb.features.local_features import frames_from
from faemb.runtime.parallel import TaskFailed, WorkerDied
from pictures import SIZE, picture
from processes import COMMAND, PATIENCE, living, one_after_the_other, wait_until


class _Brightest(Extractor):
    """A fixed number of the brightest pixels, described by their levels: fast. The _ keeps it out of the registry."""

    def __init__(self, *, max_features: int = 20, max_side: int | None = None) -> None:
        self.max_features, self.max_side = max_features, max_side

    def describe(self, image: Image) -> LocalFeatures:
        grey = image.grey()
        rows = np.argsort(-grey, axis=None, kind="stable")[: self.max_features]
        y, x = np.unravel_index(rows, grey.shape)
        frames = frames_from(np.stack([x, y], axis=1).astype(np.float32), np.tile(np.eye(2), (len(rows), 1, 1)))
        levels = grey.reshape(-1)[rows]
        return LocalFeatures(np.repeat(levels[:, None], 4, axis=1), frames, levels, image.size)


EXTRACTOR = _Brightest()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for seed, name in enumerate(["a.png", "b.jpg", "trip/c.png"]):
        picture(tmp_path / "photos" / name, seed)
    return tmp_path / "photos"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def serial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "spread", one_after_the_other)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """A file that is written again gets another number, even within one tick of the clock."""
    return {name: ((folder / name).stat().st_mtime_ns, (folder / name).stat().st_ino) for name in files_in(folder)}


def assert_equal_features(one: Path, other: Path) -> None:
    a, b = read_npz(one), read_npz(other)
    for name in ("descriptors", "frames", "scores"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.image_size, a.fingerprint) == (b.image_size, b.fingerprint)
    assert read_npz_header(one) == read_npz_header(other)


def test_workers_and_this_process_write_the_same(photos, out):
    """The one test of this file whose workers are real and end well."""
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff no more")
    extractor, calls = HessianAffine(max_features=20), []
    summary = extract_folder(photos, out, extractor, jobs=2, progress=lambda *call: calls.append(call))
    assert files_in(out) == ["a.png.npz", "b.jpg.npz", "trip/c.png.npz"]
    total = 0
    for name in ["a.png", "b.jpg", "trip/c.png"]:
        expected, stored = extractor.extract(photos / name), read_features(out / f"{name}.npz")
        assert len(expected) > 0
        np.testing.assert_array_equal(stored.descriptors, expected.descriptors)
        np.testing.assert_array_equal(stored.frames, expected.frames)
        assert stored.image_size == SIZE
        assert read_npz_header(out / f"{name}.npz") == (extractor.fingerprint, content_hash(photos / name))
        total += len(expected)
    assert (summary.images, summary.up_to_date, summary.features) == (4, 0, total)
    (sentence,) = summary.failed
    assert str(photos / "broken.jpg") in sentence
    assert calls == [("features", done, 4) for done in range(5)]


# Names


@pytest.mark.usefixtures("serial")
class TestNames:
    def test_they_mirror_the_folder(self, photos, out):
        extract_folder(str(photos), str(out), EXTRACTOR)
        assert files_in(out) == ["a.png.npz", "b.jpg.npz", "trip/c.png.npz"]

    def test_several_places_are_named_from_the_folder_that_holds_all(self, photos, out):
        extract_folder([photos / "trip", photos / "a.png"], out, EXTRACTOR)
        assert files_in(out) == ["a.png.npz", "trip/c.png.npz"]

    def test_one_file_has_its_own_name(self, photos, out):
        extract_folder(photos / "trip" / "c.png", out, EXTRACTOR)
        assert files_in(out) == ["c.png.npz"]

    def test_relative_places_give_the_same_names(self, photos, out, monkeypatch):
        monkeypatch.chdir(photos / "trip")
        extract_folder(["..", "c.png"], out, EXTRACTOR)
        assert files_in(out) == ["a.png.npz", "b.jpg.npz", "trip/c.png.npz"]

    def test_images_that_differ_in_the_suffix_alone_do_not_collide(self, tmp_path, out):
        picture(tmp_path / "photos" / "a.png", 1)
        picture(tmp_path / "photos" / "a.jpg", 2)
        extract_folder(tmp_path / "photos", out, EXTRACTOR)
        assert files_in(out) == ["a.jpg.npz", "a.png.npz"]

    @pytest.mark.parametrize(
        "name", ["żółć 東京.png", "  spaces  .png", "line\nbreak.png", "n" * 246 + ".png", "'quo\"tes.png", "%s{}.png"]
    )
    def test_unusual_names(self, tmp_path, out, name):
        picture(tmp_path / "photos" / name)
        summary = extract_folder(tmp_path / "photos", out, EXTRACTOR)
        assert summary.failed == []
        assert files_in(out) == [f"{name}.npz"]

    def test_a_name_that_is_no_text(self, tmp_path, out):
        """Linux allows any bytes."""
        name = os.fsdecode(b"caf\xe9.png")
        try:
            picture(tmp_path / "photos" / "cafe.png").rename(tmp_path / "photos" / name)
        except OSError:
            pytest.skip("this file system wants names in UTF-8")
        assert extract_folder(tmp_path / "photos", out, EXTRACTOR).failed == []
        assert files_in(out) == [f"{name}.npz"]

    def test_a_name_with_no_room_for_our_suffix_is_explained_and_others_go_on(self, photos, out):
        picture(photos / ("n" * 251 + ".png"))
        summary = extract_folder(photos, out, EXTRACTOR)
        assert len(files_in(out)) == 3
        (sentence,) = summary.failed
        assert "File name too long" in sentence
        assert "please report" not in sentence

    def test_an_image_that_is_named_twice_counts_once(self, photos, out, monkeypatch):
        monkeypatch.chdir(photos.parent)
        summary = extract_folder(["photos", photos, photos / "a.png", "photos/trip/../a.png"], out, EXTRACTOR)
        assert (summary.images, summary.features) == (3, 60)


# What is extracted again


@pytest.mark.usefixtures("serial")
class TestResuming:
    @pytest.fixture
    def before(self, photos: Path, out: Path, serial: None) -> dict[str, tuple[int, int]]:
        """The state of the files after a first run."""
        extract_folder(photos, out, EXTRACTOR)
        return stamps(out)

    def again(self, photos: Path, out: Path, extractor: Extractor = EXTRACTOR) -> Any:
        return extract_folder(photos, out, extractor)

    def changed(self, before: dict[str, tuple[int, int]], out: Path) -> set[str]:
        now = stamps(out)
        return {name for name in now | before if now.get(name) != before.get(name)}

    def test_what_is_up_to_date_is_not_touched(self, photos, out, before):
        summary = self.again(photos, out)
        assert (summary.images, summary.up_to_date, summary.features, summary.failed) == (3, 3, 0, [])
        assert self.changed(before, out) == set()

    def test_the_same_content_under_another_date_is_not_touched(self, photos, out, before):
        os.utime(photos / "a.png", (1, 1))
        shutil.copy(photos / "b.jpg", photos / "copy")
        (photos / "copy").replace(photos / "b.jpg")
        assert self.again(photos, out).up_to_date == 3
        assert self.changed(before, out) == set()

    def test_changed_content_is_extracted_again_even_under_the_same_date(self, photos, out, before):
        date = (photos / "a.png").stat().st_mtime
        picture(photos / "a.png", 99)
        os.utime(photos / "a.png", (date, date))
        assert self.again(photos, out).up_to_date == 2
        assert self.changed(before, out) == {"a.png.npz"}
        np.testing.assert_array_equal(
            read_features(out / "a.png.npz").descriptors, EXTRACTOR.extract(photos / "a.png").descriptors
        )

    def test_changed_settings_extract_all_again(self, photos, out, before):
        summary = self.again(photos, out, _Brightest(max_features=10))
        assert (summary.up_to_date, summary.features) == (0, 30)
        assert len(self.changed(before, out)) == 3
        assert len(read_features(out / "a.png.npz")) == 10

    def test_a_file_of_another_tool_is_kept(self, photos, out, before):
        file = out / "a.png.npz"
        np.savez(file, descriptors=np.zeros((2, 4)), keypoints=np.zeros((2, 2)))
        theirs = file.read_bytes()
        summary = self.again(photos, out)
        (fault,) = summary.failed
        assert "a.png.npz exists and was not written by faemb; give another folder with --out" in fault
        assert summary.up_to_date == 2
        assert file.read_bytes() == theirs

    @pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "no archive end"])
    def test_a_damaged_file_is_written_anew(self, photos, out, before, damage):
        file = out / "a.png.npz"
        whole = file.read_bytes()
        spoilt = {
            "cut": whole[: len(whole) // 2],
            "empty": b"",
            "garbage": b"\0" * 999,
            "no archive end": whole[:-9],
        }
        file.write_bytes(spoilt[damage])
        assert self.again(photos, out).up_to_date == 2
        assert file.read_bytes() == whole
        assert self.changed(before, out) == {"a.png.npz"}

    def test_a_file_that_was_removed_is_written_again(self, photos, out, before):
        (out / "trip" / "c.png.npz").unlink()
        assert self.again(photos, out).up_to_date == 2
        assert files_in(out) == sorted(before)

    def test_a_folder_in_the_place_of_a_file_is_told(self, photos, out, before):
        (out / "a.png.npz").unlink()
        (out / "a.png.npz").mkdir()
        summary = self.again(photos, out)
        (sentence,) = summary.failed
        assert "it is a folder" in sentence
        assert summary.up_to_date == 2

    def test_a_renamed_image_is_extracted_under_its_new_name(self, photos, out, before):
        """Features of images that are gone stay: a run only adds."""
        (photos / "a.png").rename(photos / "trip" / "z.png")
        summary = self.again(photos, out)
        assert (summary.images, summary.up_to_date) == (3, 2)
        assert self.changed(before, out) == {"trip/z.png.npz"}
        assert_equal_features(out / "a.png.npz", out / "trip" / "z.png.npz")

    def test_the_same_image_under_two_names_is_stored_twice(self, photos, out):
        shutil.copy(photos / "a.png", photos / "twin.png")
        self.again(photos, out)
        assert_equal_features(out / "a.png.npz", out / "twin.png.npz")

    def test_added_images_are_extracted_alone(self, photos, out, before):
        picture(photos / "new" / "d.png", 7)
        summary = self.again(photos, out)
        assert (summary.images, summary.up_to_date, summary.features) == (4, 3, 20)
        assert self.changed(before, out) == {"new/d.png.npz"}

    def test_out_may_lie_among_the_images(self, photos):
        for up_to_date in (0, 3):
            assert self.again(photos, photos / "features").up_to_date == up_to_date
        assert files_in(photos / "features") == ["a.png.npz", "b.jpg.npz", "trip/c.png.npz"]


# What cannot be used


@pytest.mark.usefixtures("serial")
class TestFaults:
    def test_broken_images_are_named_and_do_not_stop_the_others(self, photos, out):
        (photos / "empty.png").touch()
        (photos / "text.jpg").write_text("not an image")
        whole = (photos / "a.png").read_bytes()
        (photos / "trip" / "cut.png").write_bytes(whole[: len(whole) // 2])
        summary = extract_folder(photos, out, EXTRACTOR)
        assert files_in(out) == ["a.png.npz", "b.jpg.npz", "trip/c.png.npz"]
        assert (summary.images, summary.up_to_date, summary.features) == (6, 0, 60)
        assert len(summary.failed) == 3
        for name, sentence in zip(["empty.png", "text.jpg", "trip/cut.png"], summary.failed, strict=True):
            assert str(photos / name) in sentence
            assert "\n" not in sentence
            assert "please report" not in sentence

    def test_an_image_that_shows_nothing_is_stored_without_features(self, tmp_path, out):
        (tmp_path / "photos").mkdir()
        PIL.Image.new("RGB", (50, 40), "grey").save(tmp_path / "photos" / "flat.png")
        PIL.Image.new("L", (1, 1), 9).save(tmp_path / "photos" / "tiny.png")
        extractor = HessianAffine()
        summary = extract_folder(tmp_path / "photos", out, extractor)
        assert (summary.images, summary.features, summary.failed) == (2, 0, [])
        for name, size in (("flat", (50, 40)), ("tiny", (1, 1))):
            stored = read_features(out / f"{name}.png.npz")
            assert len(stored) == 0
            assert stored.descriptors.shape == (0, 128)
            assert stored.image_size == size
        assert extract_folder(tmp_path / "photos", out, extractor).up_to_date == 2

    def test_nothing_found_is_explained_and_nothing_is_made(self, tmp_path, out):
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "notes.txt").touch()
        with pytest.raises(InputError, match=r"there are no images in .*photos"):
            extract_folder(tmp_path / "photos", out, EXTRACTOR)
        with pytest.raises(InputError, match="no files or folders are given"):
            extract_folder([], out, EXTRACTOR)
        with pytest.raises(InputError, match="there is no file or folder"):
            extract_folder(tmp_path / "gone", out, EXTRACTOR)
        assert not out.exists()

    @pytest.mark.parametrize("below", ["", "deeper/still"])
    def test_out_that_is_a_file_is_explained(self, photos, out, below):
        out.write_text("precious")
        with pytest.raises(InputError, match="is a file, where a folder is expected"):
            extract_folder(photos, out / below, EXTRACTOR)
        assert out.read_text() == "precious"

    def test_out_that_may_not_be_made_is_explained(self, photos, out, monkeypatch):
        """Simulated, since the superuser may do all."""

        def refuse(*arguments: Any, **options: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "mkdir", refuse)
        with pytest.raises(InputError, match="cannot be made: Permission denied"):
            extract_folder(photos, out, EXTRACTOR)

    def test_out_that_may_not_be_written_is_reported_for_each_image(self, photos, out, monkeypatch):
        def refuse(*arguments: Any, **options: Any) -> None:
            raise FaembError("cannot write it: Permission denied")

        monkeypatch.setattr(job, "write_npz", refuse)
        summary = extract_folder(photos, out, EXTRACTOR)
        assert [sentence.split(": ", 1)[1] for sentence in summary.failed] == ["cannot write it: Permission denied"] * 3
        assert str(photos / "a.png") in summary.failed[0]

    @pytest.mark.parametrize(
        "settings", [{"max_features": 0}, {"max_side": 5}, {"iterations": 1}], ids=lambda settings: next(iter(settings))
    )
    def test_a_wrong_setting_stops_before_anything_is_made(self, photos, out, settings):
        with pytest.raises(InputError, match=next(iter(settings))):
            extract_folder(photos, out, HessianAffine(**settings))
        assert not out.exists()

    def test_a_wrong_number_of_jobs_stops_before_anything_is_made(self, photos, out):
        with pytest.raises(InputError, match="jobs is 0"):
            extract_folder(photos, out, EXTRACTOR, jobs=0)
        assert not out.exists()

    def test_a_pipe_is_refused_and_not_waited_for(self, tmp_path, out):
        """In a thread, which is left behind if it waits."""
        os.mkfifo(tmp_path / "pipe.jpg")
        answers: list[str] = []

        def ask() -> None:
            try:
                answers.extend(extract_folder(tmp_path / "pipe.jpg", out, EXTRACTOR).failed)
            except InputError as error:
                answers.append(str(error))

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(5.0)
        (sentence,) = answers
        assert "pipe.jpg" in sentence

    def test_an_image_that_vanishes_meanwhile_is_told(self, photos, out):
        def remove(stage: str, done: int, total: int) -> None:
            (photos / "trip" / "c.png").unlink(missing_ok=True)

        summary = extract_folder(photos, out, EXTRACTOR, progress=remove)
        (sentence,) = summary.failed
        assert sentence.startswith(f"there is no file {str(photos / 'trip' / 'c.png')!r}")

    def test_folders_that_cannot_be_read_are_no_images(self, photos, out, monkeypatch):
        scandir = os.scandir

        def guarded(path: Any) -> Any:
            if os.path.basename(path) == "trip":
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)
        summary = extract_folder(photos, out, EXTRACTOR)
        assert (summary.images, summary.features, summary.failed) == (2, 40, [])
        assert summary.unreadable == [f"the folder {photos / 'trip'} cannot be read: Permission denied"]

    @pytest.mark.parametrize(
        ("error", "words"),
        [
            (
                WorkerDied("the process that worked on it was killed"),
                "{image}: the process that worked on it was killed",
            ),
            (InputError("{image} is no image"), "{image} is no image"),
            (
                MissingExtraError("reading it", "heic"),
                "{image}: reading it needs the extra 'heic': pip install \"faemb[heic]\"",
            ),
            (TaskFailed("KeyError: 'x'"), "{image}: an unexpected fault, please report it (KeyError: 'x')"),
            (TaskFailed("OSError: two\nlines"), "{image}: an unexpected fault, please report it (OSError: two)"),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
    )
    def test_every_kind_of_fault_names_the_image(self, photos, out, monkeypatch, error, words):
        image = photos / "a.png"
        told = type(error)(str(error).format(image=image)) if isinstance(error, InputError) else error
        monkeypatch.setattr(job, "spread", lambda task, items, *, jobs=None: [(items[0], told)])
        assert extract_folder(image, out, EXTRACTOR).failed == [words.format(image=image)]


# The report


@pytest.mark.usefixtures("serial")
def test_progress_starts_at_nothing_and_ends_at_all(photos, out):
    (photos / "broken.png").touch()
    calls: list[tuple[str, int, int]] = []
    extract_folder(photos, out, EXTRACTOR, progress=lambda *call: calls.append(call))
    assert calls == [("features", done, 4) for done in range(5)]


@pytest.mark.usefixtures("serial")
def test_the_summary_adds_up(photos, out):
    extract_folder(photos / "a.png", out, EXTRACTOR)
    (photos / "broken.png").touch()
    summary = extract_folder(photos, out, EXTRACTOR)
    fresh = [name for name in files_in(out) if name != "a.png.npz"]
    assert summary.images == summary.up_to_date + len(fresh) + len(summary.failed) == 4
    assert summary.features == sum(len(read_features(out / name)) for name in fresh) == 40
    assert summary.seconds > 0


@pytest.mark.usefixtures("serial")
def test_a_progress_that_fails_stops_the_run(photos, out):
    def stop(stage: str, done: int, total: int) -> None:
        if done == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        extract_folder(photos, out, EXTRACTOR, progress=stop)
    assert len(files_in(out)) == 2
    assert extract_folder(photos, out, EXTRACTOR).up_to_date == 2


def test_the_hash_is_of_the_content_alone(tmp_path):
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two"), ("d", b"")):
        (tmp_path / name).write_bytes(content)
    a, b, c, d = (content_hash(tmp_path / name) for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3
    assert len(a) == 32
    with pytest.raises(InputError, match="there is no file"):
        content_hash(tmp_path / "gone")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_a_pipe_is_not_hashed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe, a socket or a device"):
        content_hash(tmp_path / "pipe")


def test_a_huge_file_is_not_hashed(tmp_path, monkeypatch):
    (tmp_path / "large").write_bytes(bytes(2000))
    assert content_hash(tmp_path / "large")
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1KB")
    with pytest.raises(LimitError, match=r"is a file of 2 KB; expected .* of at most 1 KB"):
        content_hash(tmp_path / "large")


# Runs that are killed


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_run_that_is_killed_again_and_again_ends_like_one_that_was_not(tmp_path, out):
    """Its workers end by themselves, no file is incomplete, and the last run extracts only what is missing."""
    count, kills, moments = 24, 2, random.Random(11)  # noqa: S311
    for number in range(count):
        picture(tmp_path / "photos" / f"{number:02}.png", number)
    command = [COMMAND, "features", tmp_path / "photos", "--out", out]
    command += ["--jobs", "2", "--max-features", "20", "--quiet"]
    for kill in range(kills):
        enough = moments.randrange(kill * count // kills, (kill + 1) * count // kills)
        kill_a_run(command, partial(has_files, out, enough))
        for file in out.glob("*.npz"):
            read_npz(file)
    before = stamps(out)
    subprocess.run(command, check=True, timeout=PATIENCE)  # noqa: S603
    assert {name: stamp for name, stamp in stamps(out).items() if name in before} == before
    expected = tmp_path / "expected"
    for image in (tmp_path / "photos").iterdir():
        ExtractToFile(HessianAffine(max_features=20))(Target(image, expected / f"{image.name}.npz"))
        assert_equal_features(out / f"{image.name}.npz", expected / f"{image.name}.npz")
    assert sorted(path.name for path in out.glob("*.npz")) == files_in(expected)


def has_files(folder: Path, enough: int) -> bool:
    return len(list(folder.glob("*.npz"))) >= enough


def kill_a_run(command: list[Any], when: Callable[[], bool]) -> None:
    run = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        assert wait_until(lambda: when() or run.poll() is not None, pause=0.01)
        assert run.poll() in (None, 0)
    finally:
        run.kill()
        run.wait(PATIENCE)
        all_ended = wait_until(lambda: not living(run.pid))
        for orphan in living(run.pid):
            os.kill(orphan, signal.SIGKILL)
    assert all_ended
