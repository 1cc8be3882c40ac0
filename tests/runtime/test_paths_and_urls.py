"""URLs as paths: their texts, and what they ask a server."""

import os
import pickle
import stat
from pathlib import Path

import pytest

from elsewhere import SECRET, delete, in_memory, served, write
from faemb.errors import FaembError, InputError, LimitError, MissingExtraError, RefusedError, RemoteError
from faemb.runtime import remote
from faemb.runtime.paths_and_urls import Url, absolute, common_parent, fetched, place, shown

URL = "s3://bucket/trip/a b.JPG"


def url(text: str) -> Url:
    made = place(text)
    assert isinstance(made, Url)
    return made


def seen(path: Path) -> tuple[int, int]:
    """Two files of the same are taken to be unchanged."""
    return path.stat().st_size, path.stat().st_mtime_ns


class TestTexts:
    def test_it_is_a_path(self):
        made = url(URL)
        assert str(made) == os.fspath(made) == made.as_posix() == URL
        assert (made.name, made.suffix, made.stem) == ("a b.JPG", ".JPG", "a b")
        assert [str(each) for each in made.parents][:2] == ["s3://bucket/trip", "s3://bucket"]
        assert str(made.parent / "b.jpg") == "s3://bucket/trip/b.jpg"
        assert str(made.with_suffix(".npz")) == "s3://bucket/trip/a b.npz"
        assert made.absolute() == absolute(made) == absolute(URL) == made
        assert made in {url(URL)}
        assert sorted([url("s3://b/2"), url("s3://b/1")]) == [url("s3://b/1"), url("s3://b/2")]

    def test_names_in_a_folder_are_those_of_local_files(self):
        assert url(URL).relative_to(url("s3://bucket")) == Path("trip/a b.JPG")
        assert not isinstance(url(URL).relative_to("s3://bucket"), Url)
        assert url(URL).is_relative_to("s3://bucket/trip")
        assert not url(URL).is_relative_to("s3://bucket/tri")
        with pytest.raises(ValueError, match="is not in"):
            url(URL).relative_to("s3://other")

    def test_common_folders(self):
        assert common_parent([url("s3://b/x/1"), url("s3://b/x/2")]) == url("s3://b/x")
        assert common_parent([url("s3://b/x"), url("s3://b/y")]) == url("s3://b")
        for other in (url("s3://c/x"), url("gs://b/x"), Path("/b/x")):
            with pytest.raises(ValueError, match="no folder"):
                common_parent([url("s3://b/x"), other])

    @pytest.mark.parametrize(
        "text", ["file:///data/a%20b.jpg", "FILE:///data/a%20b.jpg", "file://localhost/data/a b.jpg"]
    )
    def test_local_files(self, text):
        assert place(text) == Path("/data/a b.jpg")
        assert not isinstance(place(text), Url)

    @pytest.mark.parametrize("text", ["a.jpg", "/a//b", "C://a", "s3:/bucket", "", "://a", "a b://c"])
    def test_other_texts_are_paths(self, text):
        assert place(text) == Path(text)
        assert not isinstance(place(text), Url)

    def test_spellings_of_one_place(self):
        assert str(place("S3://bucket/trip/")) == "s3://bucket/trip"
        assert place(URL) is not place(URL)
        assert place(path := Path("a")) is path

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("s3://", "names no server or bucket"),
            ("s3:///a.jpg", "names no server or bucket"),
            ("s3://bucket/a//b.jpg", "empty part"),
            ("s3://bucket/../b.jpg", "one of dots"),
            (f"s3://key:{SECRET}@bucket/a.jpg", "AWS_ACCESS_KEY_ID"),
            ("file://server/a.jpg", "file:/// and a path of this machine"),
        ],
    )
    def test_what_is_none(self, text, words):
        with pytest.raises(InputError, match=words) as caught:
            place(text)
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize(
        "text",
        [f"https://me:{SECRET}@host/a.jpg", f"https://{SECRET}@host/a.jpg", f"https://host/a.jpg?sig={SECRET}#part"],
    )
    def test_secrets_are_in_no_text(self, text):
        made = url(text)
        assert str(made) == shown(text) == shown(made) == "https://host/a.jpg"
        assert SECRET not in repr(made) + str(made.parent) + made.as_uri()
        again = pickle.loads(pickle.dumps(made))  # noqa: S301  (as it is sent to a worker)
        assert again.address.full == made.address.full == text.partition("#")[0]

    @pytest.mark.parametrize(
        "text", [f"https://me:a/{SECRET}@host/b.jpg", f"https://me:{SECRET}/b.jpg", f"http://[{SECRET}/b.jpg"]
    )
    def test_what_may_be_a_part_of_a_password_is_not_repeated(self, text):
        with pytest.raises(InputError, match="no server and port that can be read") as caught:
            place(text)
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize("text", ["file://[x/a.jpg", "file://x]/a.jpg", f"file://me:{SECRET}@host/a.jpg"])
    def test_local_files_of_servers(self, text):
        with pytest.raises(InputError, match="names the server") as caught:
            place(text)
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize("before", ["", "x" * 185], ids=["whole", "cut"])
    def test_errors_of_libraries_repeat_no_secrets(self, before):
        address = url(f"https://me:{SECRET}@host/a.jpg?signed={SECRET} ").address
        fault = remote._explanation(address, ValueError(f"{before} {address.full}"))
        assert SECRET[:4] not in str(fault)

    @pytest.mark.parametrize("text", ["http://host:/a.jpg", "http://[::1]:80/a.jpg", "http://höst/a.jpg"])
    def test_servers(self, text):
        assert str(place(text)) == text

    @pytest.mark.parametrize(
        ("told", "size", "second"),
        [
            ({"size": 10**30, "mtime": 1e300}, None, 0),
            ({"size": -1, "Last-Modified": "Fri, 31 Dec 9999 23:59:59 GMT"}, None, 0),
            ({"size": 7, "ETag": "\udcff", "LastModified": "2024-01-01T00:00:00"}, 7, 1_704_067_200),
        ],
        ids=["large", "late", "not text"],
    )
    def test_odd_answers(self, told, size, second):
        known = remote._known(told)
        assert (known.size, known.changed // 1_000_000_000) == (size, second)

    def test_only_what_a_browser_follows_is_a_link(self):
        assert url("https://host/a.jpg").as_uri() == "https://host/a.jpg"
        assert url("javascript://host/%0aalert(1)").as_uri() == url(URL).as_uri() == "#"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "album" / "trip").mkdir(parents=True)
    (tmp_path / "album" / "a.jpg").write_bytes(b"abc")
    (tmp_path / "album" / "trip" / "b.jpg").write_bytes(b"b")
    return tmp_path / "album"


class TestInMemory:
    def test_as_local_files(self, folder):
        there = url(in_memory(folder))
        assert there.is_dir()
        assert not there.is_file()
        file = there / "a.jpg"
        assert file.is_file()
        assert stat.S_ISREG(file.stat().st_mode)
        assert file.stat().st_size == 3
        assert not (there / "none.jpg").exists()
        with pytest.raises(FileNotFoundError):
            (there / "none.jpg").stat()
        with file.open("rb") as stream:
            assert stream.read() == file.read_bytes() == b"abc"
        with pytest.raises(InputError, match="is not a local file"):
            file.open("wb")

    def test_entries_need_no_further_question(self, folder, monkeypatch):
        there = url(in_memory(folder))
        entries = dict(there.entries(pytest.fail))
        assert sorted(entries) == ["a.jpg", "trip"]
        before = seen(there / "a.jpg")
        monkeypatch.setattr("faemb.runtime.paths_and_urls.ask", pytest.fail)
        assert entries["trip"].listed_as_folder
        assert seen(entries["a.jpg"]) == before

    def test_a_file_that_is_written_again_has_changed(self, folder):
        there = in_memory(folder)
        before = seen(url(f"{there}/a.jpg"))
        assert seen(url(f"{there}/a.jpg")) == before
        write(f"{there}/a.jpg", b"xyz")
        assert seen(url(f"{there}/a.jpg")) != before

    def test_it_is_fetched_once(self, folder):
        there = in_memory(folder)
        held = fetched(f"{there}/a.jpg")
        write(f"{there}/a.jpg", b"longer than before")
        assert isinstance(held, Url)
        assert (held.read_bytes(), held.stat().st_size) == (b"abc", 3)
        assert fetched(held) is held
        assert b"abc" not in pickle.dumps(held)

    def test_a_file_that_changes_after_it_was_listed_is_read_as_it_is(self, folder):
        there = in_memory(folder)
        listed = dict(url(there).entries(pytest.fail))["a.jpg"]
        write(f"{there}/a.jpg", b"longer than before")
        held = fetched(listed)
        assert (held.read_bytes(), held.stat().st_size) == (b"longer than before", 18)
        assert seen(held) != seen(url(f"{there}/a.jpg"))  # the next update looks at it again

    def test_a_file_that_vanishes_after_it_was_listed(self, folder):
        there = in_memory(folder)
        listed = dict(url(there).entries(pytest.fail))["a.jpg"]
        delete(f"{there}/a.jpg")
        with pytest.raises(InputError, match=f"{there}/a.jpg is not there any more"):
            fetched(listed)

    def test_no_more_than_the_memory_of_an_item(self, folder, monkeypatch):
        there = in_memory(folder)
        listed = dict(url(there).entries(pytest.fail))["a.jpg"]
        write(f"{there}/a.jpg", bytes(2000))
        monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1000B")
        with pytest.raises(LimitError, match=r"a file of 2 KB; expected an image file of at most 1 KB"):
            fetched(f"{there}/a.jpg")
        with pytest.raises(LimitError, match=r"is a file of more than 1 KB"):
            fetched(listed)  # larger than the listing has said

    def test_local_paths_are_given_back(self):
        assert fetched("./a.jpg") == "./a.jpg"
        assert fetched(path := Path("a.jpg")) is path


class TestByHttp:
    def test_a_folder(self, folder):
        with served(folder.parent) as (server, _):
            there = url(f"{server}/album")
            assert there.is_dir()
            assert url(f"{server}/album/").is_dir()
            assert sorted(name for name, _ in there.entries(pytest.fail)) == ["a.jpg", "trip"]
            assert (there / "a.jpg").is_file()
            assert (there / "a.jpg").stat().st_size == 3
            assert seen(there / "a.jpg") == seen(url(f"{server}/album/a.jpg"))
            assert not (there / "none").exists()
            assert fetched(there / "a.jpg").read_bytes() == b"abc"

    def test_passwords_are_used_and_not_shown(self, folder):
        (folder / "secret.jpg").write_bytes(b"s")
        with served(folder) as (server, asked):
            with pytest.raises(RefusedError, match=r"/secret.jpg may not be read: the server answers 401"):
                fetched(f"{server}/secret.jpg?sig={SECRET}")
            allowed = server.replace("://", f"://me:{SECRET}@")
            assert fetched(place(f"{allowed}/secret.jpg")).read_bytes() == b"s"
            assert any("Basic" in each for each in asked)
            with pytest.raises(RemoteError) as caught:
                fetched(f"{allowed}/broken.jpg?sig={SECRET}")
            assert SECRET not in str(caught.value)
            assert str(caught.value).startswith(f"{server}/broken.jpg cannot be reached: the server answers 500")

    def test_passwords_from_netrc(self, folder, tmp_path, monkeypatch):
        (folder / "secret.jpg").write_bytes(b"s")
        (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        with served(folder) as (server, _):
            assert fetched(place(f"{server}/secret.jpg")).read_bytes() == b"s"

    def test_a_file_without_end(self, folder, monkeypatch):
        monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1MB")
        with served(folder) as (server, _), pytest.raises(LimitError, match=r"endless.jpg is a file of more than 1 MB"):
            fetched(f"{server}/endless.jpg")

    def test_a_page_without_end(self, folder, monkeypatch):
        monkeypatch.setattr(remote, "_LARGEST_PAGE", 1_000_000)
        with served(folder) as (server, _), pytest.raises(LimitError, match=r"endless is a file of more than 1 MB"):
            url(f"{server}/endless").is_dir()

    def test_a_file_that_is_cut_short(self, folder):
        (folder / "cut.jpg").write_bytes(bytes(1000))
        with served(folder) as (server, _), pytest.raises(RemoteError, match=r"cut.jpg cannot be reached: "):
            fetched(f"{server}/cut.jpg")

    def test_a_file_that_arrives_too_slowly(self, folder, monkeypatch):
        monkeypatch.setenv("FAEMB_ITEM_SECONDS", "0.2")
        with served(folder) as (server, _), pytest.raises(RemoteError, match=r"jpg arrives too slowly: .* in 0.15 s"):
            fetched(f"{server}/endless.jpg")

    def test_a_time_that_no_catalogue_holds(self, folder):
        os.utime(folder / "a.jpg", (10**10, 10**10))  # in nanoseconds more than 63 bits
        with served(folder) as (server, _):
            assert url(f"{server}/a.jpg").stat().st_mtime_ns == 0

    def test_links_that_lead_nowhere_are_passed_over(self, folder):
        (folder / "index.html").write_text('<a href="http://[x/b.jpg">b</a><a href="a.jpg">a</a>')
        with served(folder) as (server, _):
            assert [name for name, _ in url(server).entries(pytest.fail)] == ["a.jpg"]

    def test_only_links_to_what_is_in_the_folder_count(self, tmp_path):
        links = [
            "a.jpg",
            "/album/b%20c.jpg",
            "?C=N",
            "../up.jpg",
            "http://other/c.jpg",
            "#x",
            "deep/d.jpg",
            "sub/",
            "./e.jpg",
        ]
        (tmp_path / "album").mkdir()
        page = "".join(f'<a href="{link}">x</a>' for link in links)
        (tmp_path / "album" / "index.html").write_text(page + "<A HREF='f&amp;g.jpg'>x</a><a>no link")
        with served(tmp_path) as (server, _):
            entries = dict(url(f"{server}/album").entries(pytest.fail))
        assert sorted(entries) == ["a.jpg", "b%20c.jpg", "e.jpg", "f&g.jpg", "sub"]
        assert [name for name, entry in entries.items() if entry.listed_as_folder] == ["sub"]

    def test_a_server_that_is_away(self, folder):
        with served(folder) as (server, _):
            pass
        with pytest.raises(RemoteError, match=rf"{server}/a.jpg cannot be reached: .*; check the address") as caught:
            url(f"{server}/a.jpg").exists()
        assert not isinstance(caught.value, RefusedError)


class TestPackages:
    def test_without_the_extra(self, monkeypatch):
        monkeypatch.setattr(remote, "find_spec", lambda name: None)
        with pytest.raises(MissingExtraError, match=r'reading s3://b/a.jpg needs the extra .*"faemb\[remote\]"'):
            fetched("s3://b/a.jpg")

    def test_without_the_package_of_a_service(self):
        pytest.importorskip("fsspec")
        with pytest.raises(FaembError, match=r"^gs://b/a.jpg cannot be read: it needs the package gcsfs: pip install"):
            fetched("gs://b/a.jpg")

    def test_unknown_kinds(self):
        with pytest.raises(InputError, match=r"^xyz://b/a.jpg begins with xyz://, which is unknown"):
            fetched("xyz://b/a.jpg")

    def test_names_are_not_addresses_inside_each_other(self, tmp_path):
        """A bucket may hold any name."""
        (tmp_path / "private").write_bytes(b"private")
        inside = f"memory://b/a.jpg::file://{tmp_path}/private"
        with pytest.raises(InputError, match="empty part"):
            place(inside)
        with pytest.raises(InputError, match="there is no file"):
            fetched(Url(inside))
