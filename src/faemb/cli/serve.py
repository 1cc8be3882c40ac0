"""The command that serves a collection: the page in the browser, and the HTTP API."""

import os
from pathlib import Path
from typing import Annotated

from faemb.cli.console import is_shown_on_a_terminal, print_what_is_logged, result, silence
from faemb.cli.options import Device, InCollection, Jobs, Store, flag, open_address, value

TOKEN = "FAEMB_TOKEN"  # noqa: S105, the name of a variable


def serve(
    collection: InCollection,
    *,
    host: Annotated[
        str,
        value("ADDRESS", "Address to listen on; if it is not a loopback address, requests need a token."),
    ] = "127.0.0.1",
    port: Annotated[int, value("N", "Port to listen on; 0 picks a free one.")] = 8000,
    token: Annotated[
        str | None,
        value("SECRET", f"Secret that every request needs; better given as the environment variable {TOKEN}."),
    ] = None,
    writable: Annotated[bool, flag("Allow visitors to add and remove images.", "--writable")] = False,
    uploads: Annotated[
        Path | None,
        value("FOLDER", "Folder for images that visitors add; NAME-uploads beside NAME.faemb if not given."),
    ] = None,
    folder: Annotated[
        list[Path] | None,
        value("FOLDER", "Folder of this machine from which visitors may add images; may be repeated."),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        value("NAME", "Further host name of the server, such as that of a proxy; may be repeated."),
    ] = None,
    store: Store = None,
    device: Device = "cpu",
    jobs: Jobs = None,
    show: Annotated[bool, flag("Show the page in the browser.", "--open")] = False,
) -> None:
    """Serve COLLECTION as a web page and an HTTP API.

    Example: faemb serve photos.faemb --open
    """
    _require_extra()
    from faemb.web.server import serve, with_token
    from faemb.web.settings import ServerSettings

    secret = token or os.environ.get(TOKEN) or None
    settings = with_token(
        ServerSettings(
            collection=collection,
            host=host,
            port=port,
            token=secret,
            host_names=tuple(host_name or ()),
            writable=writable,
            uploads=uploads,
            folders=tuple(folder or ()),
            device=device,
            store=store,
            jobs=jobs,
        )
    )

    def ready(address: str) -> None:
        is_logged = secret is not None and not is_shown_on_a_terminal()  # a given token is kept out of logs
        result(f"{collection} is served at {address.partition('?')[0] if is_logged else address}")
        result("stop with Ctrl-C", at_once=True)
        if show:
            open_address(address)

    print_what_is_logged("uvicorn", "faemb")
    silence("python_multipart")  # a malformed request is explained to its sender
    serve(settings, ready)


def _require_extra() -> None:
    from importlib.util import find_spec

    from faemb.errors import MissingExtraError

    if not all(map(find_spec, ("fastapi", "uvicorn", "python_multipart", "prometheus_client"))):
        raise MissingExtraError("faemb serve", "web")
