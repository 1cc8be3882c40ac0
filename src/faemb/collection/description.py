"""What the catalogue holds about the model of a collection: enough to read its vectors, and to learn it again.

The file of the model is needed to encode images, and for nothing else. If it is damaged, or if this version computes
other numbers with it, the vectors can still be read, and the model be learned again from the stored features.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module

from faemb import persistence
from faemb.collection.model import Model, vectors_per_image
from faemb.errors import FormatError

FACT = "model_description"
"""Name of the description in the table `about`."""


@dataclass(frozen=True)
class Description:
    """A model without what it has learned."""

    fingerprint: str
    dimension: int
    """Dimension of its vectors; 0 before it is fitted."""
    settings: persistence.Tree
    written_by: str
    """The version of faemb that wrote this: it reads both the catalogue and the model."""

    @classmethod
    def of(cls, model: Model, fingerprint: str | None = None) -> "Description":
        """`fingerprint` is the model's, if it was computed already."""
        dimension = model.dimension if model.is_fitted else 0
        version = import_module("faemb").__version__
        return cls(fingerprint or model.fingerprint, dimension, persistence.settings_tree(model), version)

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def parts(self) -> int:
        return int(self.settings["settings"].get("parts", 0))

    @property
    def vectors_per_image(self) -> int:
        return vectors_per_image(self.parts)

    def part_as_text(self, part: str) -> str:
        """A part of the model with its settings, as text."""
        tree = self.settings["settings"][part]
        tree = tree["settings"].get("embedding", tree)
        return f"{tree['component']}({', '.join(f'{name}={value!r}' for name, value in tree['settings'].items())})"


Encoding = Model | Description
"""What is known of the model that made vectors: its fingerprint, their dimension, and how many there are per image."""


def description_in(about: Mapping[str, str]) -> Description | None:
    """The description of the model that `about` names; None if an earlier version has written it."""
    if FACT not in about:
        return None
    found = Description(**json.loads(about[FACT]))
    return found if found.fingerprint == (about.get("model") or about.get("asked")) else None


def settings_alone(tree: persistence.Tree) -> Model:
    """A model of these settings that is not fitted; it may learn from features that are stored.

    Revisions of the extractor's classes must be those of this version: another one would find other features.
    """
    model = persistence.unfitted(tree, unchanged=["extractor"])
    if not isinstance(model, Model):
        raise FormatError(f"these are the settings of a {type(model).__name__}, not of a model of images")
    return model
