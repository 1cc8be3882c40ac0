"""The commands for local features: what they print, where, and how they end.

The first part runs real processes; the rest runs the commands here, without worker processes.
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from command_line import Ended, Run, assert_mistake, assert_misuse, commands

import faemb
from faemb.features import HessianAffine, job, read_features
from faemb.features.files import hloc_names, read_hloc, read_npz, write_npz
from pictures import SIZE, picture
from processes import COMMAND, PATIENCE, heeded, living, one_after_the_other, wait_until


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images in a folder "photos" of the current folder."""
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "photos" / "a.png", 1)
    picture(tmp_path / "photos" / "trip" / "b.jpg", 2)
    return tmp_path / "photos"


def process(*arguments: object, stdout: Any = subprocess.PIPE) -> Ended:
    command = [str(COMMAND), *map(str, arguments)]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)  # noqa: S603
    return Ended(done.returncode, done.stdout, done.stderr)


# Real processes


def test_extract_resume_and_tell(photos):
    """From nothing, then again with a broken image beside, then with nothing but a broken image."""
    first = process("features", "photos", "--out", "out", "--max-features", "20", "--jobs", "2")
    count = sum(len(read_features(file)) for file in (photos.parent / "out").rglob("*.npz"))
    assert re.fullmatch(rf"2 images with {count} features; in out after \d+\.\d s\n", first.out)
    assert (first.code, first.err) == (0, "")
    assert sorted(file.name for file in (photos.parent / "out").rglob("*.npz")) == ["a.png.npz", "b.jpg.npz"]

    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff no more")
    again = process("features", "photos", "--out", "out", "--max-features", "20", "--jobs", "1")
    assert again.out.startswith("0 images with 0 features; 2 already up to date; 1 could not be read; in out after")
    assert re.fullmatch(r"faemb: photos/broken\.jpg [^\n]+\n", again.err)
    assert again.code == 3


def test_a_mistake_is_one_line_and_no_traceback(photos):
    assert_mistake(process("features", "nowhere", "--out", "out"), "there is no file or folder nowhere")


def test_a_misused_option_is_explained(photos):
    ended = process("features", "photos", "--out")
    assert (ended.code, ended.out) == (2, "")
    assert "--out" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_no_traceback():
    with Path("/dev/full").open("w") as full:
        ended = process("--version", stdout=full)
    assert ended.code != 0
    assert "Traceback" not in ended.err


def test_a_reader_that_has_seen_enough_is_no_fault():
    """As in `faemb --help | true`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = process("--help", stdout=writing)
    finally:
        os.close(writing)
    assert "Traceback" not in ended.err


STOPPED = "faemb: stopped; run the same command again to go on\n"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("whom", "moment"),
    [("the process", "in the middle"), ("as a terminal", "while workers start"), ("as a terminal", "in the middle")],
)
def test_ctrl_c_ends_everything_and_what_is_done_stays(photos, whom, moment):
    for number in range(40):
        picture(photos / f"{number}.png", number, size=(320, 240))
    out = photos.parent / "out"
    command = [str(COMMAND), "features", "photos", "--out", "out", "--jobs", "2"]
    pipe = subprocess.PIPE
    with heeded(signal.SIGINT):
        run = subprocess.Popen(command, start_new_session=True, text=True, stdout=pipe, stderr=pipe)  # noqa: S603
    ready = {
        "while workers start": lambda: len(living(run.pid)) >= 5,  # itself, two that clean up, two workers
        "in the middle": lambda: any(out.glob("*.npz")),
    }
    try:
        assert wait_until(lambda: ready[moment]() or run.poll() is not None)
        (os.kill if whom == "the process" else os.killpg)(run.pid, signal.SIGINT)
        printed, warned = run.communicate(timeout=PATIENCE)
    finally:
        run.kill()
        run.wait(PATIENCE)
        all_ended = wait_until(lambda: not living(run.pid))
        for orphan in living(run.pid):
            os.kill(orphan, signal.SIGKILL)
    assert run.returncode == 130
    assert warned.endswith(STOPPED)
    if moment != "while workers start":  # a worker that is stopped while Python starts in it may have last words
        assert (printed, warned) == ("", STOPPED)
    assert all_ended
    for file in out.rglob("*.npz"):
        read_npz(file)
    assert len(list(out.rglob(".*.tmp"))) <= 2  # one of each worker, if it was killed while it wrote


# Here


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line of these arguments, in the current folder."""
    monkeypatch.setattr(job, "spread", one_after_the_other)
    monkeypatch.chdir(tmp_path)
    return commands(monkeypatch, capfd)


def test_the_version(run):
    assert run("--version") == (0, f"{faemb.__version__}\n", "")


def test_without_arguments_there_is_help(run):
    shown = run().out
    assert "Usage: " in shown
    assert "convert-features" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["features"], "Missing argument 'IMAGES'"),
        (["features", "photos"], "Missing option '--out'"),
        (["features", "photos", "--out", "out", "--jobs", "many"], "Invalid value for '--jobs'"),
        (["features", "photos", "--out", "out", "--colour"], "No such option: --colour"),
        (["show-features", "a.png", "b.png", "--out", "c.png"], "unexpected extra argument"),
        (["show-features", "a.png", "--out", "c.png", "--max-side", "1.5"], "Invalid value for '--max-side'"),
        (["convert-features", "a.npz"], "Missing option '--out'"),
        (["--colour"], "No such option: --colour"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_is_explained(run, arguments, words):
    assert_misuse(run(*arguments), words)


class TestFeatures:
    def test_settings_reach_the_extractor(self, run, photos):
        options = ["--max-features", "7", "--rotation-invariant", "--max-side", "64"]
        assert run("features", "photos", "--out", "out", *options).code == 0
        extractor = HessianAffine(max_features=7, rotation_invariant=True, max_side=64)
        expected, stored = extractor.extract(photos / "a.png"), read_features("out/a.png.npz")
        assert stored.fingerprint == extractor.fingerprint
        np.testing.assert_array_equal(stored.descriptors, expected.descriptors)

    def test_a_limit_of_0_keeps_all_features(self, run, photos):
        assert run("features", "photos", "--out", "out", "--max-features", "0").code == 0
        assert read_features("out/a.png.npz").fingerprint == HessianAffine(max_features=None).fingerprint

    def test_settings_not_given_are_the_defaults_of_the_extractor(self, run, photos):
        assert run("features", "photos", "--out", "out").code == 0
        assert read_features("out/a.png.npz").fingerprint == HessianAffine().fingerprint

    def test_no_reduction_at_all(self, run, photos):
        assert run("features", "photos", "--out", "out", "--max-side", "0").code == 0
        assert read_features("out/a.png.npz").fingerprint == HessianAffine(max_side=None).fingerprint

    def test_several_images_and_folders(self, run, photos):
        ended = run("features", "photos/trip", "photos/a.png", "--out", "out")
        assert ended.out.startswith("2 images with")
        assert sorted(file.name for file in Path("out").rglob("*.npz")) == ["a.png.npz", "b.jpg.npz"]

    def test_one_image_is_not_called_images(self, run, photos):
        assert run("features", "photos/a.png", "--out", "out").out.startswith("1 image with")

    @pytest.mark.parametrize("quiet", ["--quiet", "-q"])
    def test_quiet_prints_nothing(self, run, photos, quiet):
        assert run("features", "photos", "--out", "out", quiet) == (0, "", "")
        assert run("features", "photos", "--out", "out", quiet) == (0, "", "")

    def test_for_programs(self, run, photos):
        (photos / "empty.png").touch()
        ended = run("features", "photos", "--out", "out", "--max-features", "7", "--json")
        summary = json.loads(ended.out)
        assert (ended.code, summary["images"], summary["up_to_date"], summary["features"]) == (3, 3, 0, 14)
        (failed,) = summary["failed"]
        assert (failed["path"], f"faemb: {failed['reason']}\n") == ("photos/empty.png", ended.err)

    def test_quiet_prints_errors_still(self, run, photos):
        (photos / "empty.png").touch()
        ended = run("features", "photos", "--out", "out", "--quiet")
        assert (ended.code, ended.out) == (3, "")
        assert re.fullmatch(r"faemb: photos/empty\.png is empty[^\n]*\n", ended.err)

    def test_if_no_image_can_be_read_it_has_failed(self, run, photos):
        shutil.rmtree(photos)
        photos.mkdir()
        for name in ("one.png", "two.png"):
            (photos / name).write_text("no image")
        ended = run("features", "photos", "--out", "out")
        assert ended.code == 1
        assert ended.out.startswith("0 images with 0 features; 2 could not be read; in out")
        assert len(ended.err.splitlines()) == 2

    def test_a_folder_that_cannot_be_read_is_reported_and_no_image_is_lost_in_the_count(self, run, photos, monkeypatch):
        scandir = os.scandir

        def guarded(path: Any) -> Any:
            if os.path.basename(path) == "trip":
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)
        ended = run("features", "photos", "--out", "out")
        assert ended.err == "faemb: the folder photos/trip cannot be read: Permission denied\n"
        assert ended.out.startswith("1 image with")
        assert ended.code == 3

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--jobs", "0"], "--jobs is 0; expected a whole number, 1 to 1024"),
            (["--max-features", "-1"], "--max-features is -1"),
            (["--max-side", "5"], "--max-side is 5"),
            (["--max-side", "-1"], "--max-side is -1"),
            (["--detector", "surf"], "--detector is 'surf'; expected one of hessian-affine"),
            (["--detector", "map"], "the detector map needs a network"),
            (["--detector", "map", "--network", "gone.onnx"], "there is no file 'gone.onnx'"),
            (["--detector", "patches", "--network", "gone.onnx", "--max-features", "9"], "no setting --max-features"),
            (["--network", "gone.onnx"], "there is no file 'gone.onnx'"),
            (["--detector", "hessian-affine", "--network", "gone.onnx"], "the detector hessian-affine uses no network"),
            (["--out", "photos/a.png"], "photos/a.png is a file, where a folder is expected"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_one_line(self, run, photos, options, words):
        assert_mistake(run("features", "photos", "--out", "out", *options), words)
        assert not Path("out").exists()

    def test_no_images_is_a_mistake(self, run, photos):
        Path("empty").mkdir()
        assert_mistake(run("features", "empty", "--out", "out"), "there are no images in empty")

    def test_a_network_and_its_settings(self, run, photos):
        onnx = pytest.importorskip("onnx")
        pool = onnx.helper.make_node("AveragePool", ["image"], ["features"], kernel_shape=[8, 8], strides=[8, 8])
        kind, shape = onnx.TensorProto.FLOAT, ("batch", 3, "height", "width")
        graph = onnx.helper.make_graph(
            [pool],
            "net",
            [onnx.helper.make_tensor_value_info("image", kind, shape)],
            [onnx.helper.make_tensor_value_info("features", kind, None)],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
        Path("net.onnx").write_bytes(model.SerializeToString())
        Path("net.json").write_text(json.dumps({"channels": "rgb", "mean": 0, "std": 255}))
        for options in (["--detector", "map"], []):
            ended = run("features", "photos", "--out", "out", "--network", "net.onnx", *options)
            assert (ended.code, ended.err) == (0, "")
            assert read_features("out/a.png.npz").descriptors.shape == ((SIZE[0] // 8) * (SIZE[1] // 8), 3)
        assert "2 already up to date" in ended.out


class TestShowFeatures:
    def test_a_picture_is_drawn(self, run, photos):
        ended = run("show-features", "photos/a.png", "--out", "drawn.png", "--max-features", "10")
        count = len(HessianAffine(max_features=10).extract(photos / "a.png"))
        assert ended == (0, f"{count} features of photos/a.png drawn in drawn.png\n", "")
        with PIL.Image.open("drawn.png") as drawn:
            assert (drawn.size, drawn.mode) == (SIZE, "RGB")

    def test_all_features_are_drawn_with_a_limit_of_0(self, run, photos):
        ended = run("show-features", "photos/a.png", "--out", "drawn.png", "--max-features", "0")
        count = len(HessianAffine().extract(photos / "a.png"))
        assert ended == (0, f"{count} features of photos/a.png drawn in drawn.png\n", "")

    def test_a_box_selects(self, run, photos):
        box = (10, 10, 60, 50)
        ended = run("show-features", "photos/a.png", "--out", "drawn.jpg", "--box", ",".join(map(str, box)))
        everything = HessianAffine().extract(photos / "a.png")
        assert 0 < len(everything.inside(box)) < len(everything)
        assert ended.out.startswith(f"{len(everything.inside(box))} features")

    def test_quiet_prints_nothing(self, run, photos):
        assert run("show-features", "photos/a.png", "--out", "drawn.webp", "-q") == (0, "", "")

    def test_an_image_that_shows_nothing(self, run, photos):
        PIL.Image.new("L", (20, 10), 128).save("flat.png")
        assert (
            run("show-features", "flat.png", "--out", "drawn.png").out == "0 features of flat.png drawn in drawn.png\n"
        )

    @pytest.mark.parametrize(
        ("image", "options", "words"),
        [
            ("gone.png", [], "there is no file 'gone.png'"),
            ("photos", [], "photos is a folder"),
            ("text.png", [], "text.png is not an image"),
            ("photos/a.png", ["--box", "1,2,3"], "expected x1,y1,x2,y2"),
            ("photos/a.png", ["--box", "a,b,c,d"], "expected x1,y1,x2,y2"),
            ("photos/a.png", ["--box", "nan,0,9,9"], "expected x1,y1,x2,y2 in pixels"),
            ("photos/a.png", ["--box", "9,9,5,5"], "is empty"),
            ("photos/a.png", ["--box", "500,500,600,600"], "outside the image, which is 120 x 90 pixels"),
            ("photos/a.png", ["--box=-50,-50,-10,-10"], "outside the image"),
            ("photos/a.png", ["--max-side", "3"], "--max-side is 3"),
            ("photos/a.png", ["--out", "drawn.tif"], "ends in .png, .jpg or .webp"),
            ("photos/a.png", ["--out", "gone/drawn.png"], "the folder gone does not exist"),
        ],
    )
    def test_mistakes_are_one_line(self, run, photos, image, options, words):
        Path("text.png").write_text("no image")
        assert_mistake(run("show-features", image, "--out", "drawn.png", *options), words)
        assert not Path("drawn.png").exists()


class TestConvertFeatures:
    @pytest.fixture
    def extracted(self, photos: Path) -> Path:
        """A folder of features, as `faemb features photos --out features` leaves it."""
        for image in ("a.png", "trip/b.jpg"):
            Path("features", image).parent.mkdir(parents=True, exist_ok=True)
            write_npz(f"features/{image}.npz", HessianAffine(max_features=9).extract(photos / image))
        return Path("features")

    def assert_same(self, one: Any, other: Any) -> None:
        for name in ("descriptors", "frames", "scores"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert (one.image_size, one.fingerprint) == (other.image_size, other.fingerprint)

    def test_a_folder_to_one_file_and_back(self, run, extracted):
        assert run("convert-features", "features", "--out", "all.h5") == (0, "2 images written to all.h5\n", "")
        assert hloc_names("all.h5") == ["a.png", "trip/b.jpg"]
        assert run("convert-features", "all.h5", "--out", "back") == (0, "2 images written to back\n", "")
        assert sorted(path.name for path in Path("back").rglob("*.npz")) == ["a.png.npz", "b.jpg.npz"]
        for name in ("a.png", "trip/b.jpg"):
            original = read_features(f"features/{name}.npz")
            self.assert_same(dict(read_hloc("all.h5"))[name], original)
            self.assert_same(read_features(f"back/{name}.npz"), original)

    def test_a_file_of_another_tool(self, run, tmp_path):
        record = struct.pack("<9fi", 10, 20, 3, 0, 1, 0, 0, 1, 0.5, 128) + bytes(range(128))
        Path("photo.siftgeo").write_bytes(record * 2)
        assert run("convert-features", "photo.siftgeo", "--out", "photo.npz").out == "1 image written to photo.npz\n"
        stored = read_features("photo.npz")
        self.assert_same(stored, read_features("photo.siftgeo"))
        np.testing.assert_array_equal(stored.centres, [[10, 20]] * 2)
        assert run("convert-features", "photo.siftgeo", "--out", "photo.h5", "--quiet") == (0, "", "")
        assert hloc_names("photo.h5") == ["photo"]

    def test_descriptors_alone(self, run, tmp_path):
        Path("rows.fvecs").write_bytes(struct.pack("<i3f", 3, 1, 2, 3) * 4)
        assert run("convert-features", "rows.fvecs", "--out", "rows.h5").code == 0
        assert run("convert-features", "rows.h5", "--out", "back").code == 0
        np.testing.assert_array_equal(read_features("back/rows.npz").descriptors, [[1, 2, 3]] * 4)

    def test_one_image_of_many(self, run, extracted):
        run("convert-features", "features/trip", "--out", "one.h5")
        assert run("convert-features", "one.h5", "--out", "one.npz").code == 0
        self.assert_same(read_features("one.npz"), read_features("features/trip/b.jpg.npz"))

    @pytest.mark.parametrize(
        ("source", "out", "words"),
        [
            ("gone.npz", "out.h5", "there is no file 'gone.npz"),
            ("gone.h5", "out", "there is no file 'gone.h5"),
            ("photos", "out.h5", "the folder photos holds no features"),
            ("photos/a.png", "out.h5", "ends in '.png'"),
            ("features", "out.npz", "features holds several images, an .npz holds one"),
            ("features", "out.txt", "features cannot be written as out.txt"),
            ("features", "gone/out.h5", "the folder gone does not exist"),
            ("broken.siftgeo", "out.npz", "broken.siftgeo is truncated"),
            ("broken.h5", "out", "broken.h5"),
        ],
    )
    def test_mistakes_are_one_line_and_leave_nothing(self, run, extracted, source, out, words):
        Path("broken.siftgeo").write_bytes(b"\0" * 20)
        Path("broken.h5").write_bytes(b"\0" * 20)
        assert_mistake(run("convert-features", source, "--out", out), words)
        assert not list(Path().glob("*out*"))
        assert not list(Path().glob(".*"))

    def test_a_damaged_file_among_many_leaves_no_half_file(self, run, extracted):
        Path("features/trip/b.jpg.npz").write_bytes(b"PK damaged")
        assert_mistake(run("convert-features", "features", "--out", "out.h5"), r"b\.jpg\.npz")
        assert not list(Path().glob("*out*"))
        assert not list(Path().glob(".*"))

    def test_a_name_that_leads_out_of_the_folder_is_refused(self, run, photos):
        h5py = pytest.importorskip("h5py")
        with h5py.File("evil.h5", "w") as file:
            file["../../escaped/keypoints"] = np.zeros((1, 2))
            file["../../escaped/descriptors"] = np.zeros((4, 1))
        assert_mistake(run("convert-features", "evil.h5", "--out", "deep/out"), "leads out of deep/out")
        assert not list(Path().rglob("escaped*"))

    def test_two_files_of_one_name_are_not_written_over_each_other(self, run, extracted):
        Path("features/a.png.fvecs").write_bytes(struct.pack("<i3f", 3, 1, 2, 3))
        assert_mistake(run("convert-features", "features", "--out", "out.h5"), "'a.png'")
        assert_mistake(run("convert-features", "features", "--out", "out"), "'a.png'")
