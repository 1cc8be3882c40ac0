"""What a store in a server refuses, and what it says when the server is away or refuses: no server is needed here."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from pymilvus import MilvusException
from safetensors.numpy import save_file

from faemb import Encoder, FastFAemb, HessianAffine, Projection, Whitening
from faemb.collection import Collection, Model
from faemb.collection.linear_maps import LinearMap
from faemb.collection.stores import milvus_indexes
from faemb.collection.stores.addresses import Address, parse
from faemb.collection.stores.milvus_server import Server, StoreAwayError, StoreFullError, patience, waiting_at_most
from faemb.errors import FaembError, FormatError, InputError, MissingExtraError
from small_collections import tiny_model

NOWHERE = "milvus://127.0.0.1:1/photos"


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("milvus://here/photos", Address("here", 19530, "photos")),
            ("milvus://127.0.0.1:19531/_p2", Address("127.0.0.1", 19531, "_p2")),
            ("milvuss://m.example.org:443/team/photos", Address("m.example.org", 443, "photos", "team", True)),
            ("milvus://[::1]:19530/photos", Address("[::1]", 19530, "photos")),
        ],
    )
    def test_parts(self, text, expected):
        assert parse(text) == expected
        assert parse(str(expected)) == expected

    @pytest.mark.parametrize(
        "text",
        [
            *("photos", "", "milvus://here", "milvus://here/", "milvus:///photos", "http://here/photos"),
            *(
                "milvus://here:0/photos",
                "milvus://here:70000/photos",
                "milvus://here/my-photos",
                "milvus://here/2photos",
            ),
            *("milvus://here/a/b/c", "milvus://here/photos\n", "milvus://here/" + "p" * 201, "milvus://hére/photos"),
        ],
    )
    def test_others_are_refused(self, text):
        with pytest.raises(InputError, match=r"^store is .*; expected milvus://HOST:PORT/NAME, where NAME"):
            parse(text)

    @pytest.mark.parametrize("text", ["milvus://me:secret@here/photos", "milvus://me:a/secret@b@here/photos"])
    def test_credentials_are_refused_and_not_repeated(self, text):
        with pytest.raises(InputError, match="FAEMB_MILVUS_TOKEN") as caught:
            parse(text)
        assert "secret" not in str(caught.value)


class TestServers:
    def test_a_server_that_is_away(self, tmp_path):
        with pytest.raises(StoreAwayError, match=r"^the Milvus server at 127.0.0.1:1 does not answer .*--store"):
            Collection.create(tmp_path / "c.faemb", tiny_model(), store=NOWHERE)
        assert not (tmp_path / "c.faemb").exists()

    def test_a_copy_to_a_server_that_is_away_changes_nothing(self, collection, photos):
        with pytest.raises(StoreAwayError):
            collection.copy(NOWHERE)
        assert collection.info().store is None
        assert collection.check() == []

    def test_a_silent_server_of_an_old_store_is_asked_once_a_day(self, collection, photos, monkeypatch):
        """It accepts connections, and never answers."""
        monkeypatch.setattr("faemb.collection.store_transfer._PATIENCE", 0.2)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(0)
            address = f"milvus://127.0.0.1:{silent.getsockname()[1]}/photos"
            with collection._catalogue.change():
                collection._catalogue.set("left_store", address)
                collection._catalogue.set("left_store_id", "me")
            for name, was_asked in (("a.png", True), ("b.png", False)):
                assert collection.remove(photos / name) == 1
                assert _was_called(silent) is was_asked
            assert collection.info().left_stores == [address]
            day = time.time() + 24 * 3600
            monkeypatch.setattr("faemb.collection.store_transfer.time.time", lambda: day)
            collection.remove(photos / "c.jpg")
            assert _was_called(silent)

    def test_a_server_for_vectors_that_lie_in_the_folder(self, collection):
        with pytest.raises(
            InputError, match=r"lie in its own folder; copy them with: faemb copy .*photos.faemb milvus:"
        ):
            Collection.open(collection.layout.folder, store=NOWHERE)

    def test_vectors_are_there_already(self, collection):
        with pytest.raises(InputError, match=r"are there already \(embedded\)"):
            collection.copy("embedded")

    def test_long_vectors_are_refused_before_anything_is_written(self, tmp_path, collection, monkeypatch):
        monkeypatch.setattr(Model, "dimension", 32_769)
        words = "vectors have 32,769 dimensions, and Milvus stores at most 32,768; shorten them .* keep=32768"
        with pytest.raises(InputError, match=words):
            Collection.create(tmp_path / "c.faemb", tiny_model(), store=NOWHERE)
        assert not (tmp_path / "c.faemb").exists()
        with pytest.raises(InputError, match=words):
            collection.copy(NOWHERE)

    def test_so_are_those_of_a_model_that_is_still_to_be_learned(self, tmp_path):
        """By its settings: before images are read and a model is learned in vain."""
        encoder = Encoder(FastFAemb(32), projection=Projection(46), whitening=Whitening())
        words = r"vectors have 33,511 dimensions, and Milvus stores at most 32,768; shorten them .* keep=32768"
        with pytest.raises(InputError, match=words):
            Collection.create(tmp_path / "c.faemb", Model(HessianAffine(), encoder), store=NOWHERE)
        assert not (tmp_path / "c.faemb").exists()

    @pytest.mark.parametrize(
        ("error", "kind", "words"),
        [
            (
                MilvusException(100, "collection not found[collection=a_1]"),
                FormatError,
                "has lost a collection .*a_1.*; restore .* faemb check 'my photos.faemb' --repair$",
            ),
            (MilvusException(9, "quota exceeded[reason=disk quota exceeded]"), StoreFullError, "has no room .* safe"),
            (MilvusException(65535, "memory limit exceeded"), StoreFullError, "has no room"),
            (MilvusException(1, "service not ready"), StoreAwayError, "does not answer"),
            (MilvusException(106, "collection on recovering"), StoreAwayError, "does not answer"),
            (MilvusException(grpc.StatusCode.UNAVAILABLE, "Retry timeout"), StoreAwayError, "does not answer"),
            (MilvusException(1400, "auth check failure"), InputError, "wants other credentials; .*FAEMB_MILVUS_TOKEN"),
            (MilvusException(800, "database not found"), InputError, "has no database team"),
            (MilvusException(65535, "something new\nand long"), FaembError, "refuses: something new$"),
        ],
        ids=lambda given: str(given.code) if isinstance(given, MilvusException) else "",
    )
    def test_errors_are_one_sentence(self, error, kind, words):
        fault = Server(Address("here", 1, "photos", "team"), "'my photos.faemb'")._explained(error)
        assert type(fault) is kind
        with pytest.raises(kind, match=words):
            raise fault
        assert "\n" not in str(fault)

    def test_other_errors_are_not_hidden(self):
        with pytest.raises(ZeroDivisionError):
            Server(Address("here", 1, "photos"))._explained(ZeroDivisionError())

    def test_patience_is_a_number(self, monkeypatch):
        monkeypatch.setenv("FAEMB_STORE_SECONDS", "soon")
        with pytest.raises(InputError, match="FAEMB_STORE_SECONDS is 'soon'; expected a number of seconds"):
            patience()

    def test_visitors_wait_for_a_shorter_time(self, monkeypatch):
        with waiting_at_most(10):
            assert patience() == 10
            monkeypatch.setenv("FAEMB_STORE_SECONDS", "3")
            assert patience() == 3
        monkeypatch.delenv("FAEMB_STORE_SECONDS")
        assert patience() == 120

    def test_calls_are_repeated_until_patience_ends(self, monkeypatch):
        """The connection is refused each time; nothing but the pauses is replaced."""
        pauses: list[float] = []
        server = Server(parse(NOWHERE))
        monkeypatch.setattr(Server, "_connected", _refused_after_the_first)
        monkeypatch.setattr("faemb.collection.stores.milvus_server.time.sleep", pauses.append)
        ticks = iter(range(10_000))
        monkeypatch.setattr("faemb.collection.stores.milvus_server.time.monotonic", lambda: float(next(ticks)))
        monkeypatch.setenv("FAEMB_STORE_SECONDS", "20")
        with pytest.raises(StoreAwayError):
            server.ask("list_collections")
        assert pauses[:3] == [0.2, 0.4, 0.8]
        assert max(pauses) == 5
        assert 10 < len(pauses) < 20


def _was_called(server: socket.socket) -> bool:
    """Whether there were connections since the last call; they are taken."""
    found = False
    while True:
        try:
            server.accept()[0].close()
            found = True
        except BlockingIOError:
            return found


def _refused_after_the_first(server: Server) -> None:
    raise_it = getattr(server, "asked", False)
    server.asked = True  # type: ignore[attr-defined]
    if raise_it:
        raise StoreAwayError("away")


class TestExtra:
    def test_without_it(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pymilvus", None)
        with pytest.raises(MissingExtraError, match=r'needs the extra .milvus.: pip install "faemb\[milvus\]"'):
            Collection.create(tmp_path / "c.faemb", tiny_model(), store=NOWHERE)
        assert not (tmp_path / "c.faemb").exists()

    def test_it_is_imported_only_if_a_server_is_used(self, template: Path):
        program = (
            "import sys; from faemb.collection import Collection; Collection.open(sys.argv[1]).check();"
            "sys.exit(any(name in sys.modules for name in ('pymilvus', 'grpc')))"
        )
        subprocess.run([sys.executable, "-c", program, template / "photos.faemb"], check=True)  # noqa: S603


class Everything(Server):
    """A server that has every collection, and takes what is stored in it."""

    def __init__(self) -> None:
        super().__init__(parse(NOWHERE))

    def ask(self, what: str, *arguments: object, **named: object) -> bool:
        return what == "has_collection"


class TestMaps:
    """Files that belong to an index in a server."""

    @pytest.fixture
    def file(self, tmp_path, rng) -> Path:
        linear = LinearMap(rng.standard_normal((8, 3)).astype(np.float32), np.zeros(8, np.float32))
        milvus_indexes._write(tmp_path / "hnsw-1-30.map", "photos_1_hnsw_00", linear)
        return tmp_path / "hnsw-1-30.map"

    def test_a_map_is_read_as_it_was_written(self, file):
        name, linear = milvus_indexes._read(file)  # type: ignore[misc]
        assert (name, linear.matrix.shape) == ("photos_1_hnsw_00", (8, 3))
        assert milvus_indexes.collections_in(file.parent) == {name}

    def test_a_damaged_one_is_not_used(self, file):
        content = bytearray(file.read_bytes())
        for place in (4, 40, len(content) - 3):
            file.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
            assert milvus_indexes._read(file) is None
        file.write_bytes(b"")
        assert milvus_indexes._read(file) is None
        assert milvus_indexes.collections_in(file.parent) == set()

    @pytest.mark.parametrize(
        ("matrix", "bias", "name"),
        [
            ((64, 3), (64,), "photos_1_hnsw_00112233"),
            ((64, 4), (64,), "photos_1_hnsw_00112233"),
            ((64, 3), (63,), "photos_1_hnsw_00112233"),
            ((64,), (64,), "photos_1_hnsw_00112233"),
            ((64, 3), (), "photos_1_hnsw_00112233"),
            ((0, 3), (0,), "photos_1_hnsw_00112233"),
            ((63, 3), (63,), "photos_1_hnsw_00112233"),
            ((64, 3), (64,), "others_1_hnsw_00112233"),
            ((64, 3), (64,), "photos_1_binary_00112233"),
            ((64, 3), (64,), ""),
        ],
    )
    def test_one_that_does_not_fit_its_table_is_made_again(self, tmp_path, rng, matrix, bias, name):
        """However it came there: its checksum is right."""
        held = LinearMap(np.zeros(matrix, np.float32), np.zeros(bias, np.float32))
        milvus_indexes._write(tmp_path / "hnsw-1-30.map", name, held)
        vectors = rng.standard_normal((30, 1, 3)).astype(np.float32)
        indexes = milvus_indexes.Indexes(Everything(), tmp_path, "photos_1", "", 3)
        index = indexes.get("hnsw", np.arange(30), 1, lambda slots: vectors[slots])
        is_used = (matrix, bias, name) == ((64, 3), (64,), "photos_1_hnsw_00112233")
        assert (index.collection == name) is is_used
        assert index.collection.startswith("photos_1_hnsw_")
        assert index.linear.matrix.shape == (64, 3)

    def test_a_header_that_is_nested_too_deeply(self, file):
        save_file({"matrix": np.zeros((8, 3))}, file, metadata={"faemb": "[" * 5000 + "]" * 5000})
        assert milvus_indexes._read(file) is None

    def test_numbers_that_are_none_are_not_used(self, tmp_path):
        held = LinearMap(np.full((64, 3), np.nan, np.float32), np.zeros(64, np.float32))
        indexes = milvus_indexes.Indexes(Everything(), tmp_path, "photos_1", "", 3)
        assert not indexes._fits(milvus_indexes.KINDS["hnsw"], "photos_1_hnsw_00112233", held)

    def test_codes_are_signs_and_short_vectors_have_unit_length(self, rng):
        linear = LinearMap(np.eye(8, dtype=np.float32), np.zeros(8, np.float32))
        values = rng.standard_normal((5, 8)).astype(np.float32)
        codes = milvus_indexes.KINDS["binary"].mapped(linear, values)
        bits = np.unpackbits(np.frombuffer(b"".join(codes), np.uint8).reshape(5, 1), axis=1)
        np.testing.assert_array_equal(bits, values > 0)
        short = np.array(milvus_indexes.KINDS["hnsw"].mapped(linear, values))
        np.testing.assert_allclose(short, values / np.linalg.norm(values, axis=1, keepdims=True), atol=1e-6)
