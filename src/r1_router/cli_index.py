"""`r1-router index <command>`: reads flags and hands over; `r1_router.cli` adds them to `r1-router`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r1_router.config import DEFAULT_CONFIG

if TYPE_CHECKING:
    from r1_router.config import Config
    from r1_router.sections import SourceConfig

index_app = typer.Typer(
    no_args_is_help=True, help="Indexes: what each would take, how good it is, whether it is whole."
)
ConfigOption = Annotated[Path, typer.Option("--config", help="The deployment's YAML file.")]
SourceOption = Annotated[str | None, typer.Option(help="A source's tag or name; the config's first by default.")]
QUERIES = 200


@index_app.command()
def plan(
    passages: Annotated[float, typer.Option(min=1000, help="How many, as 53e6.")],
    dim: Annotated[int | None, typer.Option(min=2, help="The vectors' length; --config gives its own.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Measure on this deployment's vectors and encoder.")
    ] = None,
    source: SourceOption = None,
) -> None:
    """Memory, disk, build time and recall of each kind of index at that size, from small ones measured now."""
    from r1_router.console import console
    from r1_router.errors import ConfigError
    from r1_router.retrieval.index_bench import made_up, sample
    from r1_router.retrieval.index_plan import SAMPLE, duration, table_rows
    from r1_router.retrieval.index_plan import plan as plan_indexes

    if config is None and dim is None:
        raise ConfigError("--dim: give the vectors' length, or a --config whose vectors are measured.")
    vectors = made_up(SAMPLE + QUERIES, dim or 0) if config is None else _vectors(*_section(config, source))
    rows, queries = sample(vectors, SAMPLE, QUERIES)
    found = table_rows(plan_indexes(int(passages), rows, queries, Path()))
    titles = ("index", "memory", "disk", "build", "queries/s", "recall@10", "fits here")
    told = f"{passages:,.0f} passages of {rows.shape[1]} dimensions"
    console.print(_table(told, titles, found))
    made = "made up in clusters" if config is None else "of this deployment"
    console.print(
        f"Scaled from {len(rows):,} vectors {made}, built and searched here and now: size by rows, inverted lists' "
        "build by rows x lists, graphs' by rows x log rows; recall is that of the sample, with lists in proportion. "
        "Disk is the index and the vectors in half precision, which its build reads."
    )
    if config is not None:
        rate = _encoding_rate(*_section(config, source))
        console.print(f"Embedding: {rate:,.1f} passages/s here, {duration(passages / rate)} with one such process.")


@index_app.command()
def bench(
    index: Annotated[list[str] | None, typer.Option(help="A factory string, repeatable; @ sets its search.")] = None,
    rows: Annotated[int, typer.Option(min=20, help="Vectors indexed at most; they are held in memory.")] = 200_000,
    queries: Annotated[int, typer.Option(min=1, help="Vectors drawn as queries, and not indexed.")] = QUERIES,
    source: SourceOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Recall@10 against flat and queries per second on the deployment's vectors: `--index IVF256,SQ8@nprobe=16`."""
    from r1_router.console import console
    from r1_router.retrieval.index_bench import measure, sample
    from r1_router.retrieval.index_plan import choices, duration

    loaded, section = _section(config, source)
    indexed, asked = sample(_vectors(loaded, section), rows, queries)
    size, dim = indexed.shape
    kinds = [(one.factory, one.search) for one in choices(size, dim)] if not index else []
    kinds += [(factory, search) for factory, _, search in (one.partition("@") for one in index or [])]
    found = [
        [
            " ".join(filter(None, (one.factory, one.search))),
            f"{one.bytes / 1e6:,.1f} MB",
            duration(one.train_seconds + one.build_seconds),
            f"{one.queries_per_second:,.0f}",
            f"{one.recall:.3f}",
        ]
        for one in measure(indexed, asked, kinds)
    ]
    told = f"{section.name}: {size:,} vectors of {dim}, {len(asked)} queries, 64 at once"
    console.print(_table(told, ("index", "size", "build", "queries/s", "recall@10"), found))


@index_app.command()
def check(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Hash every file of the knowledge bases and of kept vectors; what is right is then opened without hashing."""
    from r1_router.config import load_config
    from r1_router.elsewhere import is_elsewhere
    from r1_router.errors import KnowledgeBaseError
    from r1_router.retrieval.embedding import check_vectors
    from r1_router.retrieval.manifest import read_manifest, write_stamps
    from r1_router.retrieval.pyserini import is_pyserini

    wrong = 0
    for section in load_config(config).sources:
        if is_elsewhere(section) or is_pyserini(section.folder):
            typer.echo(f"{section.name}: not built here, so there is nothing to compare with")
            continue
        try:
            manifest = read_manifest(section.folder, thorough=True)
            write_stamps(section.folder)
            shards = check_vectors(section.vectors) if section.vectors else 0
        except KnowledgeBaseError as error:
            wrong += 1
            typer.echo(f"{section.name}: {error}", err=True)
        else:
            kept = f" and {shards} of vectors" if shards else ""
            typer.echo(
                f"{section.name}: {manifest.rows:,} passages, {len(manifest.files)} files{kept} as they were made"
            )
    if wrong:
        raise typer.Exit(1)


@index_app.command()
def embed(
    source: SourceOption = None,
    engine: Annotated[str, typer.Option(help="local, or ray: workers of a Ray cluster.")] = "local",
    workers: Annotated[
        int, typer.Option(min=1, help="Processes, each with an encoder, and a GPU where there is one.")
    ] = 1,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Embed a source's passages into its `vectors` folder; `r1-router build` then only indexes them."""
    from functools import partial

    from r1_router.bases import encoder_of, worker_encoder
    from r1_router.console import step_bars
    from r1_router.errors import ConfigError
    from r1_router.retrieval.embedding import open_job
    from r1_router.retrieval.embedding_engines import embed as embed_job

    loaded, section = _section(config, source)
    if section.vectors is None:
        raise ConfigError(f"{config}: the source {section.name!r} needs `vectors`, a folder that keeps them.")
    encoder = encoder_of(loaded, section.encoder)
    job = open_job(section.passages, section.vectors, encoder, image_root=section.image_root, dtype=section.dtype)
    make = partial(worker_encoder, loaded, section.encoder) if workers > 1 or engine != "local" else lambda: encoder
    with step_bars() as show:
        embed_job(job, make, engine=engine, workers=workers, progress=lambda done, total: show("passages", done, total))
    typer.echo(f"{job.rows:,} vectors in {job.folder}")


def _section(config: Path, source: str | None) -> tuple[Config, SourceConfig]:
    from r1_router.config import load_config
    from r1_router.errors import ConfigError

    loaded = load_config(config)
    for section in loaded.sources:
        if source in (None, section.tag, section.name):
            return loaded, section
    raise ConfigError(
        f"--source: {config} has no {source!r}; there are {', '.join(one.tag for one in loaded.sources)}."
    )


def _vectors(config: Config, section: SourceConfig) -> Any:
    from r1_router.elsewhere import is_elsewhere
    from r1_router.errors import ConfigError
    from r1_router.retrieval.index_bench import base_vectors

    if is_elsewhere(section):
        raise ConfigError(f"--source: the {section.name} is kept elsewhere; name one that has its vectors in a folder.")
    return base_vectors(section.folder, section.vectors)


def _encoding_rate(config: Config, section: SourceConfig, passages: int = 256) -> float:
    import time

    from r1_router.bases import encoder_of
    from r1_router.retrieval.inputs import item_of, passage_files
    from r1_router.retrieval.store import open_store

    store = open_store(passage_files(section.passages)[0])
    root = section.image_root or section.passages.resolve().parents[1]
    items = [item_of(row, root) for row in store.rows(0, min(passages, len(store)))]
    encoder = encoder_of(config, section.encoder)
    encoder.encode_passages(items[:8])
    started = time.perf_counter()
    encoder.encode_passages(items)
    return len(items) / (time.perf_counter() - started)


def _table(title: str, titles: tuple[str, ...], rows: list[list[str]]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))  # seven columns in 80 characters
    for number, name in enumerate(titles):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
