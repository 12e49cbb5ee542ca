"""The manifest of a corpus: what it was made from, what was left out and why, and the shards' checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from r1_router import __version__
from r1_router.corpora.passages import KEPT, NOT_CLOSED, PASSAGES
from r1_router.corpora.pieces import Fault, Skip
from r1_router.corpora.shards import Shard
from r1_router.errors import DataError
from r1_router.files import write_atomically

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is known of a finished corpus; `failures` are the first ones by file and line."""

    source: dict[str, Any]
    settings: dict[str, Any]
    counts: dict[str, Any]
    failures: list[str]
    shards: list[Shard]
    version: str = __version__
    format: int = FORMAT

    def lines(self) -> list[str]:
        """The counts for a reader, one line a kind."""
        counts = self.counts
        told = [f"{counts[PASSAGES]:,} passages of {counts[KEPT]:,} documents in {len(self.shards)} shards"]
        if counts[NOT_CLOSED]:
            told.append(f"{NOT_CLOSED}, kept: {counts[NOT_CLOSED]:,}")
        for kind in ("skipped", "failed"):
            reasons = {reason: count for reason, count in counts[kind].items() if count}
            listed = "; ".join(f"{reason} {count:,}" for reason, count in reasons.items())
            told.append(f"{kind}: {sum(reasons.values()):,}" + (f" ({listed})" if listed else ""))
        return told + [f"    {failure}" for failure in self.failures]


def counts_by_reason(counts: Mapping[str, int]) -> dict[str, Any]:
    """The counts as the manifest has them, every reason named whether it came about or not."""
    totals = {name: counts.get(name, 0) for name in (PASSAGES, KEPT, NOT_CLOSED)}
    return {
        **totals,
        "skipped": {skip.value: counts.get(skip.value, 0) for skip in Skip},
        "failed": {fault.value: counts.get(fault.value, 0) for fault in Fault},
    }


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it, whole or not at all; called last, as its presence says that the corpus is whole."""
    write_atomically(folder / MANIFEST, json.dumps(asdict(manifest), indent=1) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a whole corpus; raises DataError where it cannot be read or a shard is missing or cut."""
    path = folder / MANIFEST
    again = f"Remove {folder} and build it again."
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise DataError(f"{path} has format {record['format']}, this version reads {FORMAT}. {again}")
        manifest = Manifest(**{**record, "shards": [Shard(**shard) for shard in record["shards"]]})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a manifest ({error!r}). {again}") from error
    for shard in manifest.shards:
        found = folder / shard.name
        if not found.is_file() or found.stat().st_size != shard.bytes:
            raise DataError(f"{found} is not the shard that was built: it is missing or was cut. {again}")
    return manifest
