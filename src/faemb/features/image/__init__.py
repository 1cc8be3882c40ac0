"""Images as the extractors take them: from files, Pillow or arrays, with limits on their size."""

from faemb.features.image.image import (
    DEFAULT_MAX_SIDE,
    Image,
    ImageLike,
    as_image,
    name_of,
    read_image,
    require_max_side,
)

__all__ = ["DEFAULT_MAX_SIDE", "Image", "ImageLike", "as_image", "name_of", "read_image", "require_max_side"]
