"""Dyn-VQA's pictures by address: OmniSearch's file of the same name has them, row by row, and many are dead."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from r1_router import jsonl
from r1_router.datasets.download import Downloader
from r1_router.datasets.pictures import MAX_BYTES, Pictures
from r1_router.datasets.places import Progress
from r1_router.errors import DataError, DownloadError

DEAD_LINKS = "dead_links.jsonl"
"""In the picture folder: what the last call could not bring, one {"image", "url", "reason"} a line."""
TRIES = 2
TIMEOUT = 15.0
"""Seconds: most hosts that keep silent are gone, and there are hundreds of them."""
WORKERS = 8
_OWN = "it must be the file of the same name that the questions were made of."


def from_links(source: Path, pictures: Pictures, progress: Progress) -> dict[str, str]:
    """Fetch the wanted pictures from the addresses in `source`; gives those that failed, with the reason.

    Pictures that are there are not fetched again. Raises DataError for a file that is not the questions' own.
    """
    links = _links(source, pictures)
    wanted = pictures.wanted().values()
    faults: dict[str, str] = {}
    with Downloader(tries=TRIES, timeout=TIMEOUT) as downloader:
        pool = ThreadPoolExecutor(WORKERS)
        try:
            jobs = {pool.submit(_bring, downloader, pictures, picture, links[picture]): picture for picture in wanted}
            for done, job in enumerate(as_completed(jobs), start=1):
                if fault := job.result():
                    faults[jobs[job]] = fault
                progress(done, len(jobs))
        finally:
            pool.shutdown(cancel_futures=True)
    dead = [picture for picture in wanted if picture in faults]
    listed = [{"image": picture, "url": links[picture], "reason": faults[picture]} for picture in dead]
    jsonl.rewrite(pictures.folder / DEAD_LINKS, listed)
    return faults


def dead_links(pictures: Pictures) -> list[jsonl.Record]:
    """What the last call could not bring; nothing where none was made."""
    path = pictures.folder / DEAD_LINKS
    return list(jsonl.read(path)) if path.is_file() else []


def _links(source: Path, pictures: Pictures) -> dict[str, str | None]:
    """Each picture with its address, None where the row asks something else.

    The two files number pictures differently, so rows are joined by their order; the question's text proves the join.
    """
    if not source.is_file():
        raise DataError(f"--from: no file {source}.")
    rows = list(jsonl.read(source))
    if len(rows) != len(pictures.asked):
        raise DataError(f"{source}: {len(rows)} rows, but {len(pictures.asked)} questions; {_OWN}")
    links = {
        picture: str(row.get("image_url")) if _words(row.get("question")) == _words(question) else None
        for row, (question, picture) in zip(rows, pictures.asked, strict=True)
    }
    if all(link is None for link in links.values()):
        raise DataError(f"{source}: no row asks what the question file asks in its place; {_OWN}")
    return links


def _bring(downloader: Downloader, pictures: Pictures, picture: str, url: str | None) -> str | None:
    """Fetch one picture; gives why not where it cannot be had."""
    if url is None:
        return "its row asks another question"
    try:
        return pictures.keep(picture, downloader.read(url, MAX_BYTES))
    except DownloadError as error:
        return str(error)


def _words(text: object) -> list[str]:
    return str(text).split()
