"""Addresses of stores: milvus://HOST:PORT/NAME, or milvus://HOST:PORT/DATABASE/NAME; milvuss:// for TLS."""

import re
from dataclasses import dataclass

from faemb.errors import InputError

EMBEDDED = "embedded"
"""In place of an address: the vectors lie in the collection's own folder."""
DEFAULT_PORT = 19530
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,199}"  # Milvus allows 255; tables have a longer name than their store
_HOST = r"[A-Za-z0-9.\-]+|\[[0-9A-Fa-f:.]+\]"
_ADDRESS = re.compile(
    rf"milvus(?P<tls>s?)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?/(?:(?P<database>{_NAME})/)?(?P<name>{_NAME})",
    re.ASCII,
)


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    name: str
    database: str = ""
    tls: bool = False

    @property
    def server(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        """The address in pymilvus's form."""
        return f"http{'s' * self.tls}://{self.server}"

    def __str__(self) -> str:
        return f"milvus{'s' * self.tls}://{self.server}/{self.database and self.database + '/'}{self.name}"


def parse(text: str, name: str = "store") -> Address:
    """The address in a text; `name` is that of the setting or argument, for the error."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < (port := int(found["port"] or DEFAULT_PORT)) < 1 << 16:
        raise InputError(
            f"{name} is {_without_secrets(text)!r}; expected milvus://HOST:PORT/NAME, where NAME has letters, digits "
            "and underscores only; credentials are given in the environment variable FAEMB_MILVUS_TOKEN"
        )
    return Address(found["host"], port, found["name"], found["database"] or "", bool(found["tls"]))


def _without_secrets(text: str) -> str:
    return re.sub(r"//.*@", "//...@", text, flags=re.DOTALL)  # passwords may hold a slash, by mistake
