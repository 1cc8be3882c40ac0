"""The store that the catalogue names, which changes when another process copies the vectors to another store."""

import secrets

from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout, typed
from faemb.collection.stores.addresses import parse
from faemb.collection.stores.embedded import Embedded
from faemb.collection.stores.milvus import MilvusStore, Owner
from faemb.collection.stores.store import Store
from faemb.errors import InputError


class CurrentStore:
    """Opens the store that the catalogue names; `address` is the server's new address, if it has moved."""

    def __init__(self, layout: Layout, catalogue: Catalogue, address: str | None = None) -> None:
        self.layout, self._catalogue = layout, catalogue
        self._moved = None if address is None else str(parse(address))
        self._held: tuple[tuple[str, str] | None, Store] | None = None
        opened = catalogue.store()
        self._opened = None if opened is None else opened[1]
        if self._moved is not None and opened is None:
            raise InputError(
                f"the vectors of {layout.folder} lie in its own folder; copy them with: faemb copy "
                f"{typed(layout.folder)} {self._moved}"
            )

    def get(self) -> Store:
        """The store of the current state, or of the snapshot in which this is called."""
        named = self._catalogue.store()
        if self._held is None or self._held[0] != named:
            self.close()
            self._held = named, self._made(named)
        return self._held[1]

    def remember(self) -> None:
        """Record the server's new address, once it is known to hold the vectors of this collection."""
        named = self._catalogue.store()
        if named is not None and named[0] != self._address_of(*named):
            with self._catalogue.change():
                self._catalogue.set("store", self._address_of(*named))

    def close(self) -> None:
        if self._held is not None:
            self._held[1].close()
            self._held = None

    def _made(self, named: tuple[str, str] | None) -> Store:
        if named is None:
            return Embedded(self.layout)
        return made_store(self.layout, self._address_of(*named), named[1])

    def _address_of(self, address: str, identity: str) -> str:
        """The new address is that of the store that was opened, not of one to which the vectors were copied since."""
        return self._moved if self._moved is not None and identity == self._opened else address


def made_store(layout: Layout, address: str, identity: str) -> MilvusStore:
    """The store of this identity at an address; the server is not contacted yet."""
    return MilvusStore(parse(address), Owner(identity, layout.folder))


def new_identity() -> str:
    return secrets.token_hex(16)
