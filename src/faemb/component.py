"""What every fitted step of the pipeline shares: chosen settings and learned arrays, kept apart.

Settings are the constructor's keywords (scikit-learn's `get_params`, `set_params`, `clone` work on them and on the
nested components). Learned arrays are attributes that end in an underscore and are listed in `learned`; they exist
only after `fit`. Persistence stores the two without knowing any class.
"""

from typing import Any, ClassVar, TypeVar

from sklearn.base import BaseEstimator

from faemb.arrays import Array, like, on_device
from faemb.errors import NotFittedError

C = TypeVar("C", bound="Component")


class Component(BaseEstimator):
    learned: ClassVar[tuple[str, ...]] = ()
    transient: ClassVar[tuple[str, ...]] = ()
    """Settings that change where a result is computed and not what it is: not saved, not part of the fingerprint."""
    registry: ClassVar[dict[str, type["Component"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__init__ is not object.__init__ and not cls.__name__.startswith("_"):  # abstract bases are not loadable
            Component.registry[cls.__name__] = cls

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

    def require_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet; call fit(descriptors) first")

    def learned_arrays(self) -> dict[str, Array]:
        """Name to array; empty before `fit`."""
        return {name: getattr(self, name) for name in self.learned} if self.is_fitted else {}

    def to(self: C, device: str) -> C:
        """Move the learned arrays, here and in the parts, to "cpu" (NumPy) or a PyTorch device such as "cuda"."""
        for name, array in self.learned_arrays().items():
            setattr(self, name, on_device(array, device))
        for part in self.parts().values():
            part.to(device)
        return self

    def _beside(self, name: str, x: Array) -> Array:
        """The learned array `name` in the library, device and precision of x."""
        return like(getattr(self, name), x)
