"""Base class of all steps of the pipeline, which separates settings from learned attributes.

Settings are the constructor's keywords and are never changed by `fit`. Learned attributes end in an underscore and are
listed in `learned`: arrays, or fitted components. `get_params` and `set_params` follow
scikit-learn, so that its `clone` accepts every component; its `Pipeline` accepts those with `fit(x, y=None)` and
`transform`: encoders, projections, rotations and codes. scikit-learn itself is not imported here, since importing it
takes longer than most commands.

persistence.py stores settings and learned attributes of any component, without code for specific classes.
"""

import hashlib
import inspect
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np

from faemb.arrays import Array, like, on_device, to_numpy
from faemb.errors import InputError, NotFittedError

C = TypeVar("C", bound="Component")


class Component:
    """Base class of embeddings, encoders, extractors and models: their settings and learned attributes."""

    learned: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that `fit` sets: arrays, or components. `part_` stays None if the setting `part` is None."""
    transient: ClassVar[tuple[str, ...]] = ()
    """Settings that do not affect results, such as the device: neither saved nor part of the fingerprint."""
    may_be_empty: ClassVar[tuple[str, ...]] = ()
    """Names of learned arrays that may be empty."""
    revision: ClassVar[int] = 1
    """Increased when the same settings and learned arrays give other results than before."""
    baseline: ClassVar[Mapping[str, object]] = {}
    """Settings that were added after the first release, with the values that reproduce the earlier behaviour; learned
    attributes that were added, with None, in whose place the class computes what it did before."""
    registry: ClassVar[dict[str, type["Component"]]] = {}
    _digests: Mapping[str, tuple[Array, str]] = MappingProxyType({})
    """Learned arrays that have been hashed, with their digests."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__init__ is not object.__init__ and not cls.__name__.startswith("_"):  # abstract bases are not loadable
            Component.registry[cls.__name__] = cls

    # Settings.

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """The constructor's keywords, in order of name."""
        kind: Any = cls
        return _keywords(kind)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name; with `deep` also those of the parts, as part__setting."""
        own = {name: getattr(self, name) for name in self.setting_names()}
        if not deep:
            return own
        nested = {
            f"{name}__{inner}": value
            for name, part in own.items()
            if isinstance(part, Component)
            for inner, value in part.get_params().items()
        }
        return own | nested

    def set_params(self: C, **changes: Any) -> C:
        """Change settings, those of a part as part__setting; learned attributes are not changed."""
        for name, value in sorted(changes.items()):  # a part before the settings in it
            own, _, inner = name.partition("__")
            if own not in self.setting_names():
                known = ", ".join(self.setting_names()) or "none"
                raise InputError(f"{type(self).__name__} has no setting {own!r}; it has {known}")
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def settings(self) -> dict[str, Any]:
        """Current settings without transient ones; nested components stay components."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in self.transient}

    def check_settings(self) -> None:
        """Raise an InputError for an invalid setting."""

    def check_loaded(self) -> None:
        """Raise an InputError for loaded values that `fit` never produces.

        Types of settings, and types and shapes of arrays, are checked before (declared.py).
        """
        self.check_settings()

    def clone(self: C) -> C:
        """A new component with the same settings, not fitted."""
        settings = self.get_params(deep=False).items()
        return type(self)(
            **{name: value.clone() if isinstance(value, Component) else deepcopy(value) for name, value in settings}
        )

    def __sklearn_clone__(self: C) -> C:
        return self.clone()

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        """The settings that differ from their defaults."""
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _same(value, inspect.signature(type(self)).parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    # Learned attributes.

    @property
    def is_fitted(self) -> bool:
        return all(map(self._has_learned, self.learned))

    def _has_learned(self, name: str) -> bool:
        value, setting = getattr(self, name, None), name.removesuffix("_")
        if isinstance(value, Component):
            return value.is_fitted
        return (
            value is not None
            or name in self.baseline
            or (setting in self.setting_names() and getattr(self, setting) is None)
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def require_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet; call fit(descriptors) first")

    def learned_arrays(self) -> dict[str, Array]:
        """Learned arrays of this component alone, by name; empty before `fit`."""
        values = {name: getattr(self, name, None) for name in self.learned}
        return {name: value for name, value in values.items() if not (value is None or isinstance(value, Component))}

    def learned_parts(self) -> dict[str, "Component"]:
        """Learned attributes that are components, by name; empty before `fit`."""
        values = {name: getattr(self, name, None) for name in self.learned}
        return {name: value for name, value in values.items() if isinstance(value, Component)}

    def digests(self) -> dict[str, str]:
        """A digest of the content of each learned array; each array is hashed only once."""
        found = {}
        for name, array in self.learned_arrays().items():
            hashed, digest = self._digests.get(name, (None, ""))
            found[name] = digest if hashed is array else digest_of(array)
            self.set_learned(name, array, found[name])
        return found

    def set_learned(self, name: str, array: Array, digest: str) -> None:
        """Set a learned array whose digest is known, so that it is not hashed again."""
        setattr(self, name, array)
        self._digests = {**self._digests, name: (array, digest)}

    def to(self: C, device: str) -> C:
        """Move learned arrays to "cpu" (NumPy), or to a PyTorch device such as "cuda"."""
        for name, array in self.learned_arrays().items():
            hashed, digest = self._digests.get(name, (None, ""))
            if hashed is array:
                self.set_learned(name, on_device(array, device), digest)
            else:
                setattr(self, name, on_device(array, device))
        for part in self.learned_parts().values():
            part.to(device)
        return self

    def _beside(self, name: str, x: Array) -> Array:
        """The learned array `name` in the library, device and precision of x."""
        return like(getattr(self, name), x)


def digest_of(array: Array) -> str:
    """Digest of an array's type, shape and content, the same for all array libraries."""
    host = np.ascontiguousarray(to_numpy(array))
    digest = hashlib.blake2b(f"{host.dtype.str} {host.shape}".encode(), digest_size=16)
    digest.update(host.reshape(-1).view(np.uint8).data if host.size else b"")
    return digest.hexdigest()


@cache  # since inspecting a signature is slow
def _keywords(kind: Any) -> tuple[str, ...]:
    return () if kind.__init__ is object.__init__ else tuple(sorted(inspect.signature(kind).parameters))


def _same(value: Any, default: Any) -> bool:
    """Whether a setting equals its default; always false for arrays and parts."""
    return value is default or (isinstance(value, bool | int | float | str) and bool(value == default))
