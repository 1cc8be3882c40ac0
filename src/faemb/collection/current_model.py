"""The model of a collection in one state: another process may learn it again, and replace its file, at any time."""

from contextlib import AbstractContextManager
from pathlib import Path

from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.stores.attached import CurrentStore
from faemb.errors import FormatError


class CurrentModel:
    """Reads the model when it is first needed, and again whenever the catalogue names another one."""

    def __init__(self, layout: Layout, catalogue: Catalogue, store: CurrentStore, device: str) -> None:
        self.layout, self.catalogue, self.store = layout, catalogue, store
        self._device = device
        self._held: tuple[str, Model] | None = None
        """The model and its fingerprint, which is empty for one that the catalogue did not name yet."""

    def get(self) -> Model:
        """The model of the current state, or of the snapshot in which this is called."""
        with self.snapshot() as model:
            return model

    def snapshot(self) -> AbstractContextManager[Model]:
        """One state of the catalogue, and its model."""
        return self.catalogue.consistent(self._read)

    def keep(self, model: Model, fingerprint: str) -> None:
        """Take a model that has just learned and is saved, so that its file need not be read."""
        self._held = fingerprint, model

    def forget(self) -> None:
        """Read the model from its file when it is needed again."""
        self._held = None

    def _read(self) -> Model:
        expected = self.catalogue.about()["model"]
        if self._held is not None and expected in ("", self._held[0]):
            return self._held[1]
        file = self.layout.model(self.catalogue.in_use().model)
        model = Model.load(file, device=self._device)
        if expected and model.fingerprint != expected:
            raise FormatError(wrong_model(file))
        self._held = expected, model
        return model


def wrong_model(file: Path) -> str:
    return f"{file} is not the model that encoded this collection; restore the right file, or index the images again"
