"""`r1-router datasets <command>`: reads flags and hands over; what needs a network is loaded only when used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from r1_router.datasets.places import BASE_URL, BASE_URL_VARIABLE, PUBLISHED_ROOT

datasets_app = typer.Typer(no_args_is_help=True, help="Fetch and check the six published question sets.")

NamesArgument = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which sets; all six by default.")]
RootOption = Annotated[Path, typer.Option("--root", help="The folder where the sets are kept.")]
FAULTS_PRINTED = 10


@datasets_app.command()
def fetch(
    names: NamesArgument = None,
    root: RootOption = PUBLISHED_ROOT,
    base_url: Annotated[
        str, typer.Option("--base-url", envvar=BASE_URL_VARIABLE, help="A mirror of the folder with the files.")
    ] = BASE_URL,
) -> None:
    """Bring the question files by checksum, going on where an earlier call was cut short."""
    from r1_router.console import console, step_bars
    from r1_router.datasets.download import Downloader
    from r1_router.datasets.places import published_sets
    from r1_router.datasets.question_files import fetch_questions

    chosen = published_sets(names)
    with step_bars() as show, Downloader() as downloader:
        fetched = fetch_questions(root, chosen, base_url, downloader, show)
    for name, path in fetched.items():
        console.print(f"{name}: {path}", soft_wrap=True, markup=False)


@datasets_app.command()
def check(names: NamesArgument = None, root: RootOption = PUBLISHED_ROOT) -> None:
    """Say what is present, missing or corrupt, and what brings it; exit code 1 unless all questions are sound."""
    from r1_router.console import console
    from r1_router.datasets.check import check_set
    from r1_router.datasets.places import published_sets

    reports = [check_set(root, benchmark) for benchmark in published_sets(names)]
    for line in (line for report in reports for line in report.lines()):
        console.print(line, soft_wrap=True, markup=False)
    if not all(report.sound for report in reports):
        raise typer.Exit(1)


@datasets_app.command()
def images(
    name: Annotated[str, typer.Argument(help="infoseek, dyn_vqa or webqa.")],
    source: Annotated[Path, typer.Option("--from", help="What holds the pictures; `check` says what each set takes.")],
    root: RootOption = PUBLISHED_ROOT,
) -> None:
    """Bring the pictures that a set needs out of what you have; those that are there are left alone."""
    from r1_router.console import console, step_bars
    from r1_router.datasets.places import published_sets
    from r1_router.datasets.sources import gather_pictures

    (benchmark,) = published_sets([name])
    with step_bars() as show:
        gathered = gather_pictures(root, benchmark, source, lambda done, total: show(f"{name} pictures", done, total))
    console.print(f"{name}: {gathered.brought} pictures brought, {gathered.present} of {gathered.needed} are there.")
    for picture, reason in list(gathered.faults.items())[:FAULTS_PRINTED]:
        console.print(f"    {picture}: {reason}", soft_wrap=True, markup=False)
    if len(gathered.faults) > FAULTS_PRINTED:
        console.print(f"    and {len(gathered.faults) - FAULTS_PRINTED} more could not be kept.")
    if gathered.present < gathered.needed:
        console.print(f"`r1-router datasets check {name}` says what is missing.")
