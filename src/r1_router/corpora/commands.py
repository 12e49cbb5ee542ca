"""`r1-router corpus <command>`: reads flags and hands over; `r1_router.cli` adds them to `r1-router`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from r1_router.corpora.rows import Outcome

corpus_app = typer.Typer(no_args_is_help=True, help="Turn Wikipedia, tables, pictures and your own text into passages.")

CORES = os.cpu_count() or 1
CorpusOption = Annotated[Path, typer.Option("--output", "-o", help="The corpus: a new folder, or one to go on with.")]
FileOption = Annotated[Path, typer.Option("--output", "-o", help="The passages to write, .jsonl.")]
WorkersOption = Annotated[int, typer.Option(min=1, help="Processes at once; one a core by default.")]
ReferenceOption = Annotated[bool, typer.Option("--reference", help="Read and cut with all oddities of the reference.")]
DuplicateOption = Annotated[bool, typer.Option("--duplicate-last", help="Only its repeated last windows.")]


@corpus_app.command()
def wikipedia(
    dump: Annotated[Path, typer.Argument(help="A pages-articles dump: .xml, .xml.bz2 (best: multistream) or .xml.gz.")],
    output: CorpusOption,
    workers: WorkersOption = CORES,
    reference: ReferenceOption = False,
    duplicate_last: DuplicateOption = False,
) -> None:
    """Make a corpus straight from a dump; a run that was cut short goes on."""
    _build(dump, output, "bytes read", workers, extracted=False, reference=reference, duplicate_last=duplicate_last)


@corpus_app.command()
def wikipedia_extracted(
    source: Annotated[Path, typer.Argument(help="The folder, or one file, that WikiExtractor wrote.")],
    output: CorpusOption,
    workers: WorkersOption = CORES,
    reference: ReferenceOption = False,
    duplicate_last: DuplicateOption = False,
) -> None:
    """Make a corpus of WikiExtractor's output, text or JSON; a run that was cut short goes on."""
    _build(source, output, "input files", workers, extracted=True, reference=reference, duplicate_last=duplicate_last)


def _build(
    source: Path, output: Path, counted: str, workers: int, *, extracted: bool, reference: bool, duplicate_last: bool
) -> None:
    from r1_router.console import errors, step_bars
    from r1_router.corpora import build

    try:
        with step_bars() as show:
            corpus = build.wikipedia(
                source,
                output,
                extracted=extracted,
                workers=workers,
                reference=reference,
                duplicate_last=duplicate_last,
                progress=lambda done, total: show(counted, done, total),
            )
    except KeyboardInterrupt:
        errors.print("Stopped. The same command goes on from here.")
        raise typer.Exit(130) from None
    typer.echo(f"{corpus.folder}" + (" was there already" if corpus.reused else ""))
    for line in corpus.manifest.lines():
        typer.echo(f"  {line}")


@corpus_app.command()
def tables(
    source: Annotated[Path, typer.Argument(help="A file or folder: JSON, JSONL, CSV, Parquet, Excel or HTML.")],
    output: FileOption,
    style: Annotated[str, typer.Option(help="plain, or marked for the published table encoder.")] = "plain",
    words: Annotated[int, typer.Option(min=1, help="Words of rows in a passage.")] = 100,
) -> None:
    """Put tables in words; long ones are cut by rows, with the header repeated."""
    from r1_router.corpora.tables import Style, read_tables
    from r1_router.errors import ConfigError

    if style not in set(Style):
        raise ConfigError(f"--style: found {style!r}; there are {', '.join(Style)}.")
    _require_apart(output, source)
    _write(output, read_tables(source, Style(style), words))


@corpus_app.command()
def images(
    source: Annotated[Path, typer.Argument(help="An M-BEIR candidate pool, a captions file or a folder of pictures.")],
    output: FileOption,
    root: Annotated[Path | None, typer.Option(help="What its paths start from; its folder by default.")] = None,
) -> None:
    """List captioned pictures as passages; those that are missing or no pictures are left out and counted."""
    from r1_router.corpora.image_pools import read_images

    _write(output, read_images(source, root))


@corpus_app.command()
def documents(
    source: Annotated[Path, typer.Argument(help="A file or folder: Markdown, HTML, text, JSONL or PDF.")],
    output: FileOption,
    words: Annotated[int, typer.Option(min=1, help="Words in a passage.")] = 100,
    stride: Annotated[int, typer.Option(min=1, help="Words from one passage's start to the next one's.")] = 50,
) -> None:
    """Cut your own text into passages with the title first."""
    from r1_router.corpora.documents import read_documents_of
    from r1_router.corpora.windows import Windowing

    _require_apart(output, source)
    _write(output, read_documents_of(source, Windowing(words, stride)))


def _require_apart(output: Path, source: Path) -> None:
    """Refuse an output that would replace what is read, or be read by the next call."""
    from r1_router.errors import ConfigError

    if output.resolve().is_relative_to(source.resolve()):
        raise ConfigError(f"--output: {output} lies in {source}, which is read whole: give a file outside of it.")


def _write(output: Path, outcomes: Iterable[Outcome]) -> None:
    from r1_router.corpora.rows import write_rows

    written = write_rows(output, outcomes)
    typer.echo(f"{output}")
    for line in written.lines():
        typer.echo(f"  {line}")
