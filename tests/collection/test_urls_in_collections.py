"""Collections of images that lie on servers."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elsewhere import SECRET, delete, in_memory, served, write
from faemb.collection import Collection, gathering, images_in
from faemb.errors import InputError, LimitError, RefusedError, RemoteError
from faemb.features import HessianAffine, extract_folder, read_image
from faemb.features.folders import find_images
from faemb.runtime import parallel
from faemb.runtime.paths_and_urls import Url
from pictures import picture
from small_collections import NAMES, assert_finds, counts, names_in


@pytest.fixture
def there(photos: Path) -> str:
    return in_memory(photos)


@pytest.fixture
def far(empty: Collection, there: str) -> Collection:
    empty.add(there)
    return empty


def content(tmp_path: Path, seed: int) -> bytes:
    return picture(tmp_path / "made.png", seed).read_bytes()


class TestFinding:
    def test_the_same_images_in_the_same_order_as_in_a_folder(self, photos):
        for name in (".hidden/x.png", "@eaDir/x.png", "small/s.png", "trip/raw.png"):
            picture(photos / name, 70)
        (photos / "notes.txt").touch()
        there = in_memory(photos)
        exclude = ["small", "trip/raw*"]
        local, remote = find_images([photos], exclude), find_images([there], exclude)
        assert [str(path.relative_to(photos)) for path in local.images] == NAMES
        assert [str(path.relative_to(there)) for path in remote.images] == NAMES
        assert [path.name for path in remote.others] == [path.name for path in local.others] == ["notes.txt"]

    def test_each_image_once(self, there):
        assert len(find_images([there, f"{there}/trip", f"{there}/a.png"]).images) == len(NAMES)

    def test_names_that_no_path_can_have(self, there, monkeypatch):
        listed = Url.entries

        def odd(folder: Url, refuse: Any) -> Iterator[tuple[str, Url]]:
            refuse(f"the folder {folder} holds the name ''")
            return listed(folder, refuse)

        monkeypatch.setattr(Url, "entries", odd)
        found = find_images([there])
        assert len(found.images) == len(NAMES)
        assert found.unreadable[0].path == there

    def test_what_is_not_there(self, there):
        with pytest.raises(InputError, match=f"^there is no file or folder {there}/none$"):
            find_images([f"{there}/none"])

    def test_a_query_is_not_kept_so_it_is_refused(self):
        with pytest.raises(InputError, match=r"^https://host/a.jpg is given with a query, which is not kept") as caught:
            images_in(f"https://host/a.jpg?sig={SECRET}")
        assert SECRET not in str(caught.value)

    def test_a_folder_without_images(self, tmp_path):
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts" / "a.txt").touch()
        there = in_memory(tmp_path / "texts")
        with pytest.raises(InputError, match=rf"there are no images in {there}; passed over 1 other file"):
            images_in(there)

    def test_features_are_read_from_local_files(self, there, empty):
        write(f"{there}/a.npz", b"x")
        with pytest.raises(InputError, match=r"a.npz is not a local file; local features are read from local files"):
            images_in(f"{there}/a.npz")


class TestCollections:
    def test_names_are_the_urls(self, far, there):
        assert names_in(far) == {f"{there}/{name}" for name in NAMES}
        assert far.info().folders == [there]
        (answer,) = far.search(f"{there}/a.png", top=1)
        assert_finds(answer.hits, Url(f"{there}/a.png"))
        assert answer.hits[0].itself

    def test_vectors_and_relative_names_are_those_of_the_folder(self, far, collection, tmp_path):
        import h5py

        for each, name in ((far, "far.h5"), (collection, "near.h5")):
            each.export(tmp_path / name, "hloc-h5")
        with h5py.File(tmp_path / "far.h5") as one, h5py.File(tmp_path / "near.h5") as other:
            names: list[str] = []
            other.visit(names.append)
            assert "trip/d.png" in names
            assert all(name in one for name in names)

    def test_update(self, far, there, tmp_path):
        write(f"{there}/new.png", content(tmp_path, 20))
        write(f"{there}/a.png", content(tmp_path, 21))
        delete(f"{there}/trip/d.png")
        assert counts(far.update()) == (1, 1, 3, 1)
        assert counts(far.update()) == (0, 0, 5, 0)

    def test_unchanged_images_are_not_fetched(self, far, monkeypatch):
        monkeypatch.setattr("faemb.runtime.paths_and_urls.fetch", pytest.fail)
        assert counts(far.update()) == (0, 0, 5, 0)

    def test_a_folder_that_is_gone_is_refused(self, far, there):
        delete(there)
        with pytest.raises(InputError, match=rf"the folder {there} is not there, and its images were not touched"):
            far.update()
        assert len(far) == 5

    def test_moved_and_copied_objects_are_recognised(self, far, there, photos):
        delete(f"{there}/a.png")
        write(f"{there}/trip/z.png", (photos / "a.png").read_bytes())
        report = far.update()
        assert (report.moved, report.added) == (1, 0)

    def test_a_folder_that_was_copied_to_a_server(self, collection, photos, there):
        assert collection.relocate(photos, there) == 5
        shutil.rmtree(photos)
        assert names_in(collection) == {f"{there}/{name}" for name in NAMES}
        assert counts(collection.update()) == (0, 0, 5, 0)

    def test_remove_and_bring_back(self, far, there):
        assert far.remove(f"{there}/a.png") == 1
        assert far.update().kept_out == 1
        assert far.add(f"{there}/a.png").added == 1
        assert far.remove(there) == 5
        assert far.info().folders == []

    def test_repair_reads_the_images_again(self, far):
        features = far.layout.features(1)
        damaged = bytearray(features.read_bytes())
        damaged[100] ^= 255
        features.write_bytes(damaged)
        assert far.check(repair=True)
        assert far.check() == []

    def test_damaged_and_empty_objects(self, far, there):
        write(f"{there}/damaged.jpg", b"\xff\xd8\xff nothing")
        write(f"{there}/empty.jpg", b"")
        report = far.update()
        assert sorted(fault.path for fault in report.failed) == [f"{there}/damaged.jpg", f"{there}/empty.jpg"]
        assert "is empty, 0 bytes" in report.failed[-1]
        assert len(far.update().failed) == 2

    def test_memory_is_counted_with_the_content(self, there, tmp_path, monkeypatch):
        path = picture(tmp_path / "large.bmp", 1, (1200, 1000))
        write(f"{there}/large.bmp", path.read_bytes())
        monkeypatch.setenv("FAEMB_ITEM_MEMORY", "12500KB")  # 1.2 MB of it are the file
        read_image(path)
        with pytest.raises(LimitError, match=r"large.bmp needs 13.3 MB of memory"):
            read_image(f"{there}/large.bmp")


class TestServersThatAreAway:
    def test_an_image_that_cannot_be_read_now_stays_as_it_is_and_is_tried_again(self, far, there, tmp_path):
        write(f"{there}/a.png", content(tmp_path, 21))
        write(f"{there}/new.png", content(tmp_path, 22))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("faemb.runtime.paths_and_urls.fetch", _away)
            report = far.update()
        assert [fault.path for fault in report.failed] == [f"{there}/a.png", f"{there}/new.png"]
        assert names_in(far) == {f"{there}/{name}" for name in NAMES}
        assert far.info().unreadable == {}
        assert counts(far.update()) == (1, 1, 4, 0)

    def test_a_command_does_not_wait_for_each_of_many_images(self, empty, there, monkeypatch):
        monkeypatch.setattr(gathering, "_AWAY", 3)
        monkeypatch.setattr("faemb.runtime.paths_and_urls.fetch", _away)
        with pytest.raises(RemoteError, match=r"^3 images in a row could not be read, and those before are stored: "):
            empty.add(there)
        assert len(empty) == 0

    def test_images_that_are_forbidden_do_not_end_it(self, empty, there, monkeypatch):
        def refuse(address: Any) -> bytes:
            raise RefusedError(f"{address.shown} may not be read")

        monkeypatch.setattr(gathering, "_AWAY", 3)
        monkeypatch.setattr("faemb.runtime.paths_and_urls.fetch", refuse)
        assert len(empty.add(there).failed) == 5

    def test_an_unreachable_server_is_not_an_empty_folder(self, far, monkeypatch):
        monkeypatch.setattr("faemb.runtime.paths_and_urls.ask", _away)
        with pytest.raises(RemoteError, match="cannot be reached"):
            far.update()
        assert len(far) == 5


def _away(address: Any) -> Any:
    raise RemoteError(f"{address.shown} cannot be reached: it is away")


class TestByHttp:
    def test_worker_processes_make_their_own_connections(self, photos, tmp_path, model, monkeypatch):
        monkeypatch.setattr(gathering, "spread", parallel.spread)
        with served(photos) as (server, asked), Collection.create(tmp_path / "far.faemb", model) as made:
            report = made.add(f"{server}/", jobs=2)
            assert counts(report) == (5, 0, 0, 0)
            assert names_in(made) == {f"{server}/{name}" for name in NAMES}
            assert len([each for each in asked if each.startswith("GET") and each.endswith("a.png")]) == 1
            assert counts(made.update()) == (0, 0, 5, 0)

    def test_a_folder_that_contains_itself(self, photos, monkeypatch):
        monkeypatch.setattr("faemb.features.folders._DEEPEST", 3)
        with served(photos) as (server, asked):
            found = find_images([f"{server}/loop"])
        assert found.images == []
        assert found.unreadable == [
            f"the folder {server}{5 * '/loop'} lies too deep: in 3 others, which may contain each other"
        ]
        assert not any("secret" in each for each in asked)

    def test_pages_without_end_end_the_search(self, photos, monkeypatch):
        """Nothing is found then, so that an update removes nothing."""
        monkeypatch.setattr("faemb.features.folders._MOST_PAGES", 3)
        with served(photos) as (server, asked):
            with pytest.raises(RemoteError, match=r"loop is one of more than 3 folders of a web server"):
                find_images([f"{server}/loop"])
            assert len({each for each in asked if each.startswith("GET")}) == 3

    def test_a_folder_that_may_not_be_read_is_named_and_the_others_are_found(self, photos):
        (photos / "forbidden").mkdir()
        with served(photos) as (server, _):
            found = find_images([server])
        assert len(found.images) == len(NAMES)
        assert found.unreadable[0].startswith(f"{server}/forbidden may not be read: the server answers 403")
        assert found.unreadable[0].path == f"{server}/forbidden"

    def test_passwords_are_not_stored(self, photos, empty):
        (photos / "secret").mkdir()
        picture(photos / "secret" / "s.png", 30)
        with served(photos) as (server, _):
            empty.add(f"{server.replace('://', f'://me:{SECRET}@')}/secret")
            assert names_in(empty) == {f"{server}/secret/s.png"}
            with pytest.raises(RefusedError, match="may not be read"):
                empty.update()
        assert len(empty) == 1
        for file in empty.layout.folder.iterdir():
            assert SECRET.encode() not in file.read_bytes()

    def test_features_into_a_folder(self, photos, tmp_path):
        with served(photos) as (server, _):
            for source, out in ((str(photos), "near"), (server, "far")):
                assert extract_folder(source, tmp_path / out, HessianAffine(max_features=5), jobs=1).images == 5
        near, far = (
            sorted(str(path.relative_to(tmp_path / out)) for path in (tmp_path / out).rglob("*.npz"))
            for out in ("near", "far")
        )
        assert near == far == [f"{name}.npz" for name in NAMES]

    def test_search_with_a_signed_url(self, photos, collection):
        with served(photos) as (server, _):
            (answer,) = collection.search(f"{server}/a.png?sig={SECRET}", top=1)
        assert answer.query == f"{server}/a.png"
        assert answer.hits[0].copy_of_query
        assert answer.hits[0].path == photos / "a.png"


def test_local_files_by_url(collection, photos):
    (answer,) = collection.search((photos / "a.png").as_uri(), top=1)
    assert answer.hits[0].itself
    assert counts(collection.add(photos.as_uri())) == (0, 0, 5, 0)
