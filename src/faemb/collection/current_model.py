"""The model of a collection in one state: another process may learn it again, and replace its file, at any time."""

from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

from faemb import persistence
from faemb.collection.catalogue import Catalogue
from faemb.collection.description import Description, Encoding, description_in, settings_alone
from faemb.collection.layout import Layout, repair_command, typed
from faemb.collection.model import Model
from faemb.collection.stores.attached import CurrentStore
from faemb.errors import DamagedModelError, FormatError, OtherNumbersError


class ModelSummary(NamedTuple):
    """A model in words."""

    extractor: str
    encoder: str
    dimension: int
    """0 if it is not fitted, or not known."""
    parts: int
    fault: str | None
    """Why it cannot be used, with the cure."""


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

    def encoding(self) -> Encoding | None:
        """The facts about the model that are needed to read its vectors; None if no model was fitted yet."""
        known = description_in(self.catalogue.about())
        if known is not None and known.dimension:
            return known
        model = self.get()
        return model if model.is_fitted else None

    def is_fitted(self) -> bool:
        return bool(self.catalogue.about()["model"]) or self.encoding() is not None

    def summary(self) -> ModelSummary:
        try:
            model = self.get()
        except FormatError as error:
            intact = isinstance(error, OtherNumbersError)
            known = description_in(self.catalogue.about())
            known = known or Description.of(settings_of(self.layout, self.catalogue, intact=intact))
            return ModelSummary(
                known.part_as_text("extractor"), known.part_as_text("encoder"), known.dimension, known.parts, str(error)
            )
        encoder = model.encoder_ if model.is_fitted else model.encoder
        dimension = model.dimension if model.is_fitted else 0
        return ModelSummary(repr(model.extractor), repr(encoder.embedding), dimension, model.parts, None)

    def damage(self) -> str | None:
        """What is wrong with the model's file, if it is damaged."""
        try:
            self.get()
        except DamagedModelError as error:
            return error.fault
        return None

    def to_learn(self) -> Model:
        """The model; if its file cannot be used, one with its settings, which is not fitted."""
        try:
            return self.get()
        except DamagedModelError:
            return settings_of(self.layout, self.catalogue).to(self._device)
        except OtherNumbersError as error:
            with suppress(FormatError):  # if the extractor has changed too, the error names the cure
                return settings_of(self.layout, self.catalogue, intact=True).to(self._device)
            raise error

    def _cure(self, error: OtherNumbersError) -> str:
        """For a model with which another version computes other numbers."""
        known = description_in(self.catalogue.about())
        use = f"use: {persistence.install_command(error.made_by if known is None else known.written_by)}"
        try:
            settings_of(self.layout, self.catalogue, intact=True)
        except FormatError:
            return f"index the images again into a new collection, or {use}"
        return f"learn it again from the stored features with: faemb relearn {typed(self.layout.folder)}, or {use}"

    def _read(self) -> Model:
        expected = self.catalogue.about()["model"]
        if self._held is not None and expected in ("", self._held[0]):
            return self._held[1]
        file = self.layout.model(self.catalogue.in_use().model)
        try:
            model = Model.load(file, device=self._device)
        except DamagedModelError as error:
            raise DamagedModelError(error.fault, f"restore it from a copy, or run: {repair_command(file)}") from error
        except OtherNumbersError as error:
            raise OtherNumbersError(error.fault, self._cure(error), error.made_by) from error
        if expected and model.fingerprint != expected:
            raise FormatError(wrong_model(file))
        self._held = expected, model
        return model


def wrong_model(file: Path) -> str:
    return f"{file} is not the model that encoded this collection; restore the right file, or index the images again"


def settings_of(layout: Layout, catalogue: Catalogue, *, intact: bool = False) -> Model:
    """A model that is not fitted, with the settings of the collection's, whose file cannot be used.

    Catalogues of earlier versions do not hold them: they are read from the header of the file. If that is not
    `intact`, they are right if they have the fingerprint of the model with which the collection was made.
    """
    about, file = catalogue.about(), layout.model(catalogue.in_use().model)
    known = description_in(about)
    if known is not None:
        return settings_alone(known.settings)
    stated = persistence.stated_settings(file)
    model = None if stated is None else settings_alone(stated)
    if model is None or not (intact or model.fingerprint == about["asked"]):
        raise FormatError(
            f"{file} cannot be used, and its settings are lost; restore it from a copy, or index the images again"
        )
    return model
