"""Facts about a whole collection, in the table `about` of its catalogue: which files hold its data, and how full."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from faemb.collection.layout import MODEL, InUse, is_model_name, relearned_model
from faemb.collection.transactions import Transactions
from faemb.errors import FormatError

Result = TypeVar("Result")

_USED_SLOTS, _USED_BYTES = "used slots", "used bytes"
_FREED_SLOTS, _FREED_BYTES = "freed slots", "freed bytes"
_NEXT = ("next_generation", "next_model", "next_learned_from")
"""Facts about a model that was learned again, until it is in use."""
_STORE = ("store", "store_id", "table")
"""Facts about the server of a collection's vectors: address, identity, and number of the table in use."""


class Freed(NamedTuple):
    """Slots, and bytes of packed features, that are not in use."""

    slots: int
    bytes: int


@dataclass(frozen=True)
class Relearning:
    """A newly learned model, with which the images of the next generation are being encoded."""

    generation: int
    model: str
    """Its fingerprint."""
    learned_from: int


class Facts(Transactions):
    def generation(self) -> int:
        return self._number(self.about(), "generation")

    @contextmanager
    def consistent(self, read: Callable[[], Result]) -> Iterator[Result]:
        """The result of `read`, called in one state (`snapshot`) of which it reads the files.

        If another process has replaced these files meanwhile, it is called again in a newer state.
        """
        with ExitStack() as snapshot:
            while True:
                snapshot.enter_context(self.snapshot())
                place = self._place()
                try:
                    result = read()
                    break
                except FormatError:
                    snapshot.close()
                    if self._place() == place:
                        raise
            yield result

    def _place(self) -> tuple[str | None, ...]:
        """Identifies the files and tables that hold the data."""
        about = self.about()
        return about.get("generation"), *map(about.get, _STORE)

    def store(self) -> tuple[str, str] | None:
        """Address and identity of the store of vectors; None: they lie in the collection's folder."""
        about = self.about()
        return (about["store"], about.get("store_id", "")) if "store" in about else None

    def table(self) -> int:
        """Number of the table of vectors in use: in the collection's folder, the generation of its file."""
        about = self.about()
        return self._number(about, "table" if "store" in about else "generation")

    def attach(self, address: str, identity: str, table: int) -> None:
        """Name the store of vectors."""
        for name, value in zip(_STORE, (address, identity, str(table)), strict=True):
            self.set(name, value)

    def detach(self) -> None:
        """Record that the vectors lie in the collection's folder."""
        self.forget(*_STORE)

    def in_use(self) -> InUse:
        """The files that this catalogue names."""
        about, coming = self.about(), self.relearning()
        model, generation = about.get("model_file", MODEL), self._number(about, "generation")
        if not is_model_name(model):
            raise self._damaged(f"its model is {model!r}", repairable=False)
        table = self._number(about, "table") if "store" in about else None
        if coming is None:
            return InUse(generation, model, table=table)
        return InUse(generation, model, coming.generation, relearned_model(coming.generation), table)

    def learned_from(self) -> int | None:
        """Number of images from which the model has learned; 0 if it was given, None if that is not known."""
        about = self.about()
        return self._number(about, "learned_from") if about.get("learned_from") else None

    def used_slots(self) -> int:
        """Number of slots that are known to have been written to in this generation; there may be more."""
        return self._used(_USED_SLOTS)

    def used_bytes(self) -> int:
        """As `used_slots`, for bytes of packed features."""
        return self._used(_USED_BYTES)

    def _used(self, name: str) -> int:
        about = self.about()
        return self._number(about, name) if name in about else 0

    def use(self, *, slots: int | None = None, offsets: int | None = None) -> None:
        """Record that all slots and bytes before these have been written to in this generation."""
        for name, count in ((_USED_SLOTS, slots), (_USED_BYTES, offsets)):
            if count is not None:
                self.set(name, str(count))

    def freed(self) -> Freed | None:
        """Slots and bytes that are no longer in use, so that compaction is considered without reading all rows.

        The last count plus what was removed since; None if they must be counted again.
        """
        about = self.about()
        if not about.keys() >= {_FREED_SLOTS, _FREED_BYTES}:
            return None
        return Freed(self._number(about, _FREED_SLOTS), self._number(about, _FREED_BYTES))

    def set_freed(self, freed: Freed) -> None:
        self.set(_FREED_SLOTS, str(freed.slots))
        self.set(_FREED_BYTES, str(freed.bytes))

    def forget_freed(self) -> None:
        """Discard the counts; they are computed again when compaction is next considered."""
        self.forget(_FREED_SLOTS, _FREED_BYTES)

    def _free(self, image: int | str, *, vector: bool = True, features: bool = True) -> None:
        """Count data of an image, given by id or path, as no longer in use; there may be no such image."""
        column = "id" if isinstance(image, int) else "path"
        for name, size, counts in ((_FREED_SLOTS, "slot is not null", vector), (_FREED_BYTES, "length", features)):
            held = f"(select {size} from images where {column} = ?)"  # noqa: S608
            update = f"update about set value = cast(value + {held} as text) where name = ? and {held} > 0"  # noqa: S608
            if counts:
                self.run(update, image, name, image)

    def relearning(self) -> Relearning | None:
        """The relearning that is under way, or was interrupted; None if there is none."""
        about = self.about()
        if not about.keys() >= set(_NEXT):
            return None
        generation, model, learned_from = _NEXT
        return Relearning(self._number(about, generation), about[model], self._number(about, learned_from))

    def set_relearning(self, coming: Relearning) -> None:
        for name, value in zip(_NEXT, (coming.generation, coming.model, coming.learned_from), strict=True):
            self.set(name, str(value))

    def end_relearning(self, coming: Relearning) -> None:
        """Replace the old model by the new one."""
        self.set("generation", str(coming.generation))
        if self.store() is not None:
            self.set("table", str(coming.generation))
        self.set("model", coming.model)
        self.set("model_file", relearned_model(coming.generation))
        self.set("learned_from", str(coming.learned_from))
        self.forget(*_NEXT)
