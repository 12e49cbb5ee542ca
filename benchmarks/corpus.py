"""A dump to passages: beside WikiExtractor followed by a plain windower, and beside the decompressor alone.

    python benchmarks/corpus.py DUMP.xml.bz2 [--pages 4000] [--workers 1] [--peer-python PYTHON]

DUMP is any pages-articles dump; its pages are repeated, under new ids, till there are `--pages` of them, in bzip2
streams of 100 pages as a multistream dump has them. All read that same file, each in processes of its own.
WikiExtractor 3.1.0 runs under PYTHON, with `--no-templates`, its faster way: otherwise it reads the dump
twice. Pages are all pages of the dump, redirects among them; memory is that of all processes of a row together.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

GOAL = 3.0
"""How many times as fast as WikiExtractor followed by the windower the corpus command should be."""
ROOT = Path(__file__).resolve().parents[1]
STREAM_PAGES = 100
DECOMPRESS = """
import bz2, sys
with bz2.open(sys.argv[1]) as file:
    while file.read(1 << 20):
        pass
"""
WINDOW = """
import json, sys
from pathlib import Path
with open(sys.argv[2], "w") as out:
    for path in sorted(Path(sys.argv[1]).rglob("wiki_*")):
        for line in open(path):
            page = json.loads(line)
            words = page["text"].split()
            for start in range(0, max(len(words) - 50, 1), 50):
                text = page["title"] + " " + " ".join(words[start : start + 100])
                row = {"id": f"{page['id']}/{start // 50}", "title": page["title"], "text": text}
                out.write(json.dumps(row, ensure_ascii=False) + "\\n")
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What one way took: seconds on the clock, of processors, megabytes at most, passages made."""

    seconds: float
    cpu_seconds: float
    megabytes: float
    passages: int = 0

    def then(self, other: Run, passages: int) -> Run:
        """Both, one after the other."""
        most = max(self.megabytes, other.megabytes)
        return Run(self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds, most, passages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=Path)
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=1, help="ours, and WikiExtractor's processes")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has wikiextractor 3.1.0")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        dump = Path(folder) / "dump.xml.bz2"
        write_repeated(args.dump, dump, args.pages)
        print(f"{args.pages} pages, {dump.stat().st_size / 1e6:.1f} MB compressed, {args.workers} workers")
        print_table(args.pages, time_all(dump, Path(folder), args.workers, args.peer_python))


def write_repeated(source: Path, target: Path, pages: int) -> None:
    """A multistream dump of the source's pages, over and over: head, then streams of 100 pages, then the end."""
    text = bz2.decompress(source.read_bytes()).decode()
    found = re.findall(r"  <page>.*?</page>\n", text, re.DOTALL)
    with target.open("wb") as file:
        file.write(bz2.compress(text[: text.index("  <page>")].encode()))
        for some in in_streams(islice(renumbered(found), pages)):
            file.write(bz2.compress("".join(some).encode()))
        file.write(bz2.compress(b"</mediawiki>\n"))


def in_streams(pages: Iterator[str]) -> Iterator[list[str]]:
    while some := list(islice(pages, STREAM_PAGES)):
        yield some


def renumbered(pages: Sequence[str]) -> Iterator[str]:
    for number, page in enumerate(cycle(pages), start=1):
        yield re.sub(r"<id>\d+</id>", f"<id>{number}</id>", page, count=1)


def time_all(dump: Path, folder: Path, workers: int, peer: str) -> list[tuple[str, Run]]:
    """The decompressor, WikiExtractor in both of its ways with the windower after it, the corpus command."""
    runs = [("decompressor", timed([sys.executable, "-c", DECOMPRESS, dump]))]
    for name, options in (("WikiExtractor, windower", []), ("  the same, --no-templates", ["--no-templates"])):
        theirs = folder / f"theirs{len(runs)}"
        command: list[str | Path] = [peer, "-m", "wikiextractor.WikiExtractor", dump, "--json", "-q", "-o", theirs]
        extractor = timed([*command, "--processes", str(workers), *options])
        windower = timed([sys.executable, "-c", WINDOW, theirs, theirs.with_suffix(".jsonl")])
        with theirs.with_suffix(".jsonl").open("rb") as lines:
            runs.append((name, extractor.then(windower, sum(1 for _ in lines))))
    command = [sys.executable, "-m", "r1_router", "corpus", "wikipedia", dump, "-o", folder / "ours"]
    ours = timed([*command, "--workers", str(workers)])
    manifest = json.loads((folder / "ours" / "manifest.json").read_text())
    return [*runs, ("corpus wikipedia", replace(ours, passages=manifest["counts"]["passages"]))]


def timed(command: Sequence[str | Path]) -> Run:
    """Run it to its end, looking at its processes twenty times a second."""
    words = list(map(str, command))
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    start, most, over, ticks = time.monotonic(), 0.0, threading.Event(), dict[str, int]()
    process = subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )

    def watch() -> None:
        nonlocal most
        while not over.wait(0.05):
            pages = 0
            for name, used, resident in session_usage(process.pid):
                ticks[name], pages = used, pages + resident
            most = max(most, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.monotonic() - start
    over.set()
    watcher.join()
    if code:
        raise SystemExit(f"exit code {code}: {' '.join(words)}")
    return Run(seconds, sum(ticks.values()) / os.sysconf("SC_CLK_TCK"), most)


def session_usage(session: int) -> Iterator[tuple[str, int, int]]:
    """Each process of a session: its number, its clock ticks so far, its resident pages, from /proc."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # a process that ended meanwhile
            continue
        if int(fields[3]) == session:
            yield stat.parent.name, int(fields[11]) + int(fields[12]), int(fields[21])


def print_table(pages: int, runs: Sequence[tuple[str, Run]]) -> None:
    ours = runs[-1][1]
    table = Table("", "s", "CPU s", "pages/s", "passages/s", "MB", "ratio", "CPU ratio")
    for name, run in runs:
        table.add_row(
            name,
            f"{run.seconds:.1f}",
            f"{run.cpu_seconds:.1f}",
            f"{pages / run.seconds:,.0f}",
            f"{run.passages / run.seconds:,.0f}" if run.passages else "",
            f"{run.megabytes:.0f}",
            f"{run.seconds / ours.seconds:.2f}",
            f"{run.cpu_seconds / ours.cpu_seconds:.2f}",
        )
    Console(width=100).print(table)
    print(f"goal: {GOAL:.0f} times as fast as WikiExtractor followed by the windower")


if __name__ == "__main__":
    main()
