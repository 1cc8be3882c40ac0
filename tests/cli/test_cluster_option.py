"""--cluster: what is wrong with it is one sentence, before anything is written."""

import pytest
from command_line import Run, assert_mistake, commands

from faemb.runtime import dask_connection
from pictures import pictures

pytest.importorskip("distributed")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return commands(monkeypatch, capfd)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cluster", "tcp://127.0.0.1:1"], "there is no Dask scheduler at tcp://127.0.0.1:1; start one with"),
        (["--cluster", "here"], "--cluster is 'here'; expected the address of a Dask scheduler, such as tcp://"),
        (["--cluster", "local:2", "--jobs", "2"], "--jobs is for work on this machine; leave it out with --cluster"),
    ],
    ids=["absent", "wrong", "both"],
)
@pytest.mark.parametrize("command", ["index", "fit", "features"])
def test_a_cluster_that_cannot_be_used(run, tmp_path, monkeypatch, command, options, words):
    monkeypatch.setattr(dask_connection, "CONNECTING", 0.3)
    photos = pictures(tmp_path / "photos", range(2))
    assert_mistake(run(command, photos, "--out", tmp_path / "out", *options), words)
    assert not (tmp_path / "out").exists()


def test_relearn_takes_one_too(run, tmp_path):
    words = "--cluster is 'here'; expected the address of a Dask scheduler, such as tcp://"
    assert_mistake(run("relearn", tmp_path / "c", "--cluster", "here"), words)
