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
    source: Annotated[list[str] | None, typer.Option(help="Repeatable; every source by default.")] = None,
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
    with errors.status("loading the knowledge bases"):
        served = load_served(_with_sources(load_config(config), source))
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

    known = [section.name for section in config.sources]
    for name in names or ():
        if name not in known:
            raise ConfigError(f"--source: {name!r} is not known; there are {', '.join(known)}.")
    chosen = tuple(section for section in config.sources if not names or section.name in names)
    for section in chosen:
        if section.url is not None:
            raise ConfigError(f"--source: {section.name!r} is served at {section.url} already; name the others.")
    return replace(config, sources=chosen)
