"""Elementwise and per-vector normalisation of image vectors.

A zero vector (an image without local features) stays zero, not NaN: its similarity to every image is 0.
"""

from jaxtyping import Float

from faemb.arrays import Array, namespace


def power_law(x: Float[Array, "*b D"], exponent: float = 0.5) -> Float[Array, "*b D"]:
    """a := sign(a) |a|^exponent, component by component [DC17, Sec. 5.2.3]."""
    xp = namespace(x)
    if exponent == 1:
        return x
    magnitude = xp.sqrt(xp.abs(x)) if exponent == 0.5 else xp.abs(x) ** exponent
    return xp.sign(x) * magnitude


def unit_length(x: Float[Array, "*b D"]) -> Float[Array, "*b D"]:
    """Each vector divided by its Euclidean length; zero vectors stay zero."""
    xp = namespace(x)
    # Scaled by the largest component first: squares of subnormal or huge components would under- or overflow.
    peak = xp.max(xp.abs(x), axis=-1, keepdims=True) if x.shape[-1] else xp.ones_like(x[..., :0])
    x = x / xp.where(peak > 0, peak, xp.ones_like(peak))
    length = xp.linalg.vector_norm(x, axis=-1, keepdims=True)
    return x / xp.where(length > 0, length, xp.ones_like(length))


def unit_length_cells(x: Float[Array, "*b D"], cells: int) -> Float[Array, "*b D"]:
    """Intra-normalisation: scale each of the `cells` equal parts to unit length [Arandjelovic, Zisserman 2013]."""
    xp = namespace(x)
    parts = xp.reshape(x, (*x.shape[:-1], cells, x.shape[-1] // cells))
    return xp.reshape(unit_length(parts), tuple(x.shape))
