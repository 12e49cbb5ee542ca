"""`serve-retriever`: a config's knowledge bases over HTTP; `r1_router.cli` adds it to `r1-router`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r1_router.config import DEFAULT_CONFIG, Config

if TYPE_CHECKING:
    from r1_router.retrieval.service import Served

INSTALL = 'pip install -e ".[serve]"'


def serve_retriever(
    config: Annotated[Path, typer.Option("--config", help="The deployment's YAML file.")] = DEFAULT_CONFIG,
    host: Annotated[str, typer.Option(help="The address to listen on; by default only this machine is served.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8100,
    source: Annotated[
        list[str] | None, typer.Option(help="A source's tag or name, repeatable; every source by default.")
    ] = None,
    image_root: Annotated[Path | None, typer.Option(help="The folder that image paths may name files of.")] = None,
) -> None:
    """Serve the config's knowledge bases: POST /search, GET /health, GET /metrics."""
    from r1_router.config import load_config
    from r1_router.console import errors
    from r1_router.errors import MissingDependency

    try:
        from r1_router.retrieval.service import make_app, serve
    except ModuleNotFoundError as error:
        raise MissingDependency(f"serve-retriever needs {error.name}: {INSTALL}") from error
    chosen = _with_sources(load_config(config), source)
    _require_free(host, port)
    with errors.status("loading the knowledge bases"):
        served = load_served(chosen)
    for one in served:
        errors.print(f"{one.source.name}: {len(one.base)} passages")
    errors.print(f"serving on http://{host}:{port}; Ctrl-C stops it")
    serve(make_app(served, image_root=image_root), host, port)


def load_served(config: Config) -> list[Served]:
    """The config's knowledge bases, each with what clients keep in the fingerprint of their result files."""
    from r1_router.bases import KnowledgeBases
    from r1_router.retrieval.service import Served

    bases = KnowledgeBases(config)
    digests = bases.digest()
    loaded: dict[Any, Any] = dict(bases.load())
    # The purpose, first in the digest, is the client's own affair: it stands in its prompts.
    return [Served(source, base, digests[source.name][1:]) for source, base in loaded.items()]


def _with_sources(config: Config, names: list[str] | None) -> Config:
    """The config with the sources of these names, or all, none of which may be served elsewhere already."""
    from r1_router.errors import ConfigError

    known = [name for section in config.sources for name in (section.tag, section.name)]
    for name in names or ():
        if name not in known:
            raise ConfigError(f"--source: {name!r} is not known; there are {', '.join(known)}.")
    chosen = tuple(one for one in config.sources if not names or one.name in names or one.tag in names)
    for section in chosen:
        if section.url is not None:
            raise ConfigError(f"--source: {section.name!r} is served at {section.url} already; name the others.")
    return replace(config, sources=chosen)


def _require_free(host: str, port: int) -> None:
    """Raise ConfigError where the address cannot be listened on, before anything is loaded."""
    import socket

    from r1_router.errors import ConfigError

    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server stopped just now leaves the port free
        try:
            tried.bind((host, port))
        except OSError as error:
            reason = f"cannot listen on {host}, port {port} ({error.strerror})"
            raise ConfigError(f"--port: {reason}; give another --port, or --host.") from error
