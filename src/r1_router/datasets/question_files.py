"""Fetch the published question files, each proved by its checksum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from r1_router.benchmarks import Benchmark
from r1_router.datasets.download import Downloader, Remote
from r1_router.datasets.places import BASE_URL_VARIABLE, questions_file
from r1_router.errors import DownloadError
from r1_router.files import held

OnFetch = Callable[[str, int, int], None]
"""Called with a set's name, the bytes that are there and the file's size."""


def fetch_questions(
    root: Path, benchmarks: Sequence[Benchmark], base_url: str, downloader: Downloader, on_fetch: OnFetch
) -> dict[str, Path]:
    """Bring the question files that are not there yet; gives each by the set's name.

    One that cannot be had does not keep the others from coming: raises DownloadError naming all that failed.
    """
    fetched, problems = {}, []
    try:
        with held(root / ".lock"):
            for benchmark in benchmarks:
                try:
                    fetched[benchmark.name] = _fetch(root, benchmark, base_url, downloader, on_fetch)
                except DownloadError as error:
                    problems.append(f"{benchmark.name}: {error}")
    except OSError as error:
        raise DownloadError(f"{root}: cannot be written ({error}); --root names another folder.") from error
    if problems:
        mend = f"The same command goes on from there; --base-url or {BASE_URL_VARIABLE} names a mirror."
        raise DownloadError("\n".join([*problems, mend]))
    return fetched


def _fetch(root: Path, benchmark: Benchmark, base_url: str, downloader: Downloader, on_fetch: OnFetch) -> Path:
    remote = Remote(f"{base_url.rstrip('/')}/{benchmark.file}", benchmark.size, benchmark.sha256)

    def progress(done: int, total: int) -> None:
        on_fetch(benchmark.name, done, total)

    return downloader.fetch(remote, questions_file(root, benchmark), progress)
