"""How a collection is served."""

from dataclasses import dataclass
from pathlib import Path

LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
    device: str = "cpu"
    jobs: int | None = None
    """Worker processes that read queries; one per core if None."""
    most_bytes: int = 64_000_000
    """Largest image that may be sent."""
    most_waiting: int = 64
    """Requests that are worked on or wait for it; further ones are answered with 429."""
    body_seconds: float = 60.0
    """Longest time in which a request may be sent."""

    @property
    def upload_folder(self) -> Path:
        return self.uploads or self.collection.with_name(f"{self.collection.stem}-uploads")
