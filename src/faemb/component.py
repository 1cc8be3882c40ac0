"""What every fitted step of the pipeline shares: chosen settings and learned arrays, kept apart.

Settings are the constructor's keywords; `get_params`, `set_params`, scikit-learn's `clone` and its pipelines work on
them and on the nested components. scikit-learn itself is not imported here: that takes longer than most commands.
Learned arrays are attributes that end in an underscore and are listed in `learned`; they exist only after `fit`.
Persistence stores the two without knowing any class.
"""

import inspect
from typing import Any, ClassVar, TypeVar

from faemb.arrays import Array, like, on_device
from faemb.errors import InputError, NotFittedError

C = TypeVar("C", bound="Component")


class Component:
    learned: ClassVar[tuple[str, ...]] = ()
    transient: ClassVar[tuple[str, ...]] = ()
    """Settings that change where a result is computed and not what it is: not saved, not part of the fingerprint."""
    registry: ClassVar[dict[str, type["Component"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__init__ is not object.__init__ and not cls.__name__.startswith("_"):  # abstract bases are not loadable
            Component.registry[cls.__name__] = cls

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """The constructor's keywords, in order of name."""
        if cls.__init__ is object.__init__:
            return ()
        return tuple(sorted(inspect.signature(cls).parameters))

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
        """Change settings, those of a part as part__setting; what was learned stays as it is."""
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

    def __repr__(self) -> str:
        """The settings that differ from their defaults."""
        said = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _same(value, inspect.signature(type(self)).parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(said)})"

    def settings(self) -> dict[str, Any]:
        """The constructor's keywords as they are now, less transient ones; nested components stay components."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in self.transient}

    def parts(self) -> dict[str, "Component"]:
        """The settings that are components themselves."""
        return {name: value for name, value in self.settings().items() if isinstance(value, Component)}

    @property
    def is_fitted(self) -> bool:
        return all(hasattr(self, name) for name in self.learned)

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def require_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet; call fit(descriptors) first")

    def learned_arrays(self) -> dict[str, Array]:
        """Name to array; empty before `fit`."""
        return {name: value for name, value in self._learned().items() if not isinstance(value, Component)}

    def learned_parts(self) -> dict[str, "Component"]:
        """Learned attributes that are components, by name; empty before `fit`."""
        return {name: value for name, value in self._learned().items() if isinstance(value, Component)}

    def _learned(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.learned} if self.is_fitted else {}

    def to(self: C, device: str) -> C:
        """Move the learned arrays, here and in the parts, to "cpu" (NumPy) or a PyTorch device such as "cuda"."""
        for name, array in self.learned_arrays().items():
            setattr(self, name, on_device(array, device))
        for part in (*self.parts().values(), *self.learned_parts().values()):
            part.to(device)
        return self

    def _beside(self, name: str, x: Array) -> Array:
        """The learned array `name` in the library, device and precision of x."""
        return like(getattr(self, name), x)


def _same(value: Any, default: Any) -> bool:
    """Whether a setting is its default; arrays and parts never are."""
    return value is default or (isinstance(value, bool | int | float | str) and bool(value == default))
