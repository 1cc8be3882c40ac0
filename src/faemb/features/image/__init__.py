"""Images as the extractors take them: from files, with limits on their size, or from arrays."""

from faemb.features.image.image import DEFAULT_MAX_SIDE, Image, ImageLike, as_image, read_image, require_max_side

__all__ = ["DEFAULT_MAX_SIDE", "Image", "ImageLike", "as_image", "read_image", "require_max_side"]
