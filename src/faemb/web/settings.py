"""How a collection is served."""

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path

from faemb.errors import InputError
from faemb.settings import require_whole

_SECRET = re.compile(r"[!-~]{8,200}", re.ASCII)
"""Printable characters without spaces."""
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class ServerSettings:
    collection: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    """Secret that every request must carry; None: no secret, which only an address of this machine may have."""
    host_names: tuple[str, ...] = ()
    """Further names under which the server is reached, as behind a proxy."""
    writable: bool = False
    """Whether images may be added and removed."""
    uploads: Path | None = None
    """Folder for added images; None: `NAME-uploads` beside the collection `NAME.faemb`."""
    folders: tuple[Path, ...] = ()
    """Folders from which visitors may add images, beside those that the collection remembers."""
    device: str = "cpu"
    store: str | None = None
    """Where the server with the collection's vectors is now, if it has moved."""
    jobs: int | None = None
    """Worker processes that read queries; one per core if None."""
    most_bytes: int = 64_000_000
    """Largest image that may be sent."""
    most_waiting: int = 64
    """Requests that are worked on or wait for it; further ones are answered with 429."""
    body_seconds: float = 60.0
    """Longest time in which a request may be sent."""

    def __post_init__(self) -> None:
        require_whole("port", self.port, 0, 65535)
        if self.token is not None and not _SECRET.fullmatch(self.token):
            raise InputError("the token cannot be used; expected 8 to 200 letters, digits and signs without spaces")
        for name in self.host_names:
            if not _NAME.fullmatch(name):
                raise InputError(f"host_name is {name!r}; expected a name such as photos.example.org, without a port")

        if self.folders and not self.writable:
            raise InputError("folder is given, and visitors may not add images; add --writable, or leave folder out")
        for folder in self.folders:
            if not os.path.isdir(folder):
                raise InputError(f"folder is {os.fspath(folder)!r}; expected a folder with images to add")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        if is_address(self.host):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host.lower() == "localhost"

    @property
    def upload_folder(self) -> Path:
        return self.uploads or self.collection.with_name(f"{self.collection.stem}-uploads")


def is_address(host: str) -> bool:
    """Whether it is an IP address, and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
