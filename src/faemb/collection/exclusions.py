"""Patterns of what is left out of a folder, kept in the catalogue so that `update` leaves the same out.

One entry of the catalogue's `about` holds them as JSON: stored name of the folder -> patterns.
"""

import json
from collections.abc import Mapping, Sequence

from faemb.collection.catalogue import Catalogue
from faemb.errors import FormatError

_ENTRY = "exclude"


def excluded(catalogue: Catalogue) -> dict[str, list[str]]:
    """The patterns of each folder that has any, by stored name."""
    try:
        held = json.loads(catalogue.about().get(_ENTRY, "{}"))
        return {str(folder): [str(pattern) for pattern in patterns] for folder, patterns in held.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"{catalogue.path} is damaged: its exclusions cannot be read; restore it from a copy"
        ) from error


def exclude(catalogue: Catalogue, folder: str, patterns: Sequence[str]) -> None:
    """Replace the patterns of a folder, in a change of the catalogue."""
    held = {name: known for name, known in excluded(catalogue).items() if name != folder}
    if patterns:
        held[folder] = list(patterns)
    catalogue.set(_ENTRY, json.dumps(held))


def rename_excluded(catalogue: Catalogue, names: Mapping[str, str]) -> None:
    """Keep the patterns of folders that have new names, in a change of the catalogue."""
    held = {names.get(folder, folder): patterns for folder, patterns in excluded(catalogue).items()}
    catalogue.set(_ENTRY, json.dumps(held))
