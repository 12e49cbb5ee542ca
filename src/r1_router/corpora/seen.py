"""Which document ids a corpus has so far, in little memory: ten megabytes for all of the English Wikipedia."""

from __future__ import annotations

from collections.abc import Iterable

LARGEST = 1 << 30
"""Numbers below it have a bit each in an array that grows with the largest, to 128 MB; other ids are kept in a set."""


class Seen:
    """Ids, added piece by piece."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._others: set[str] = set()

    def add(self, ids: Iterable[str]) -> set[str]:
        """Add them all; gives those that were there before."""
        return {one for one in ids if not self._is_new(one)}

    def _is_new(self, one: str) -> bool:
        number = int(one) if one.isascii() and one.isdecimal() and len(one) <= 10 and str(int(one)) == one else LARGEST
        if number >= LARGEST:
            known = one in self._others
            self._others.add(one)
            return not known
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        known = bool(self._bits[place] & bit)
        self._bits[place] |= bit
        return not known
