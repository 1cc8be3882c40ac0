"""Models: settings and arrays that make no sense, under a checksum and a fingerprint that fit them."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from tools.fuzz.kind import Kind, Way

from faemb import Encoder, FastFAemb, HessianAffine, Model, persistence
from model_mutations import EXAMPLES, fitted, mutate, use

FILE = "model.faemb"


class Models(Kind):
    name = "models"

    def prepare(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        models = {name: fitted(example, rng) for name, example in EXAMPLES.items()}
        models["unfitted"] = Model(HessianAffine(), Encoder(FastFAemb(2)))
        for name, model in models.items():
            (folder / name).mkdir()
            persistence.save(model, folder / name / FILE)

    def ways(self, victim: Path) -> Sequence[Way]:
        return (changed,) * 4

    def read(self, folder: Path) -> None:
        use(folder / FILE)


def changed(path: Path, rng: np.random.Generator) -> None:
    """Odd settings, parts and arrays; a file that another change has damaged is left as it is."""
    with suppress(Exception):
        mutate(path, path, rng)
