"""What a retrieval server counts, as the text that Prometheus reads."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
QUERIES = (1, 2, 4, 8, 16, 32, 64)
FIRST_FAILURE = 400
"""The lowest HTTP status that is a failure."""


class Histogram:
    """How many observations lie at or below each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """The samples; `labels` are written out, with a comma at their end."""
        for bound, count in zip([*map(str, self._bounds), "+Inf"], accumulate(self._counts), strict=True):
            yield f'{name}_bucket{{{labels}le="{bound}"}} {count}'
        yield f"{name}_sum{{{labels}}} {self._sum}"
        yield f"{name}_count{{{labels}}} {sum(self._counts)}"


@dataclass(slots=True)
class Metrics:
    """The counts of one server; `batches` has a histogram for each source, by its name."""

    batches: Mapping[str, Histogram]
    in_flight: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))

    def finish(self, status: int, seconds: float) -> None:
        """Count one search that was answered with the HTTP status `status`."""
        self.by_status[status] += 1
        self.seconds.observe(seconds)

    def text(self) -> str:
        """All samples, in Prometheus's text format."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# TYPE r1_router_requests_total counter"
        for status, count in sorted(self.by_status.items()):
            yield f'r1_router_requests_total{{status="{status}"}} {count}'
        yield "# TYPE r1_router_request_failures_total counter"
        failures = sum(count for status, count in self.by_status.items() if status >= FIRST_FAILURE)
        yield f"r1_router_request_failures_total {failures}"
        yield "# TYPE r1_router_requests_in_flight gauge"
        yield f"r1_router_requests_in_flight {self.in_flight}"
        yield "# TYPE r1_router_request_seconds histogram"
        yield from self.seconds.lines("r1_router_request_seconds")
        yield "# TYPE r1_router_batch_queries histogram"
        for source, histogram in self.batches.items():
            quoted = json.dumps(source, ensure_ascii=False)  # escapes what a label's value must have escaped
            yield from histogram.lines("r1_router_batch_queries", f"source={quoted},")
