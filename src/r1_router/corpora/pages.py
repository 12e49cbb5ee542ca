"""What the readers of single files share: an HTML page parsed, a title of a file's name, a package that is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from r1_router.corpora.rows import read_text
from r1_router.errors import DataError, MissingDependency


def parse_html(path: Path) -> tuple[Any, str]:
    """The page's root element of lxml, and its title, "" where it has none; raises DataError where it is no HTML."""
    try:
        from lxml import etree, html
    except ModuleNotFoundError as error:
        raise missing("lxml") from error
    try:
        page = html.document_fromstring(read_text(path).encode(), parser=html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise DataError(f"{path}: no HTML ({error}); save the page again.") from error
    return page, " ".join(page.findtext(".//title", "").split())


def title_of_name(path: Path) -> str:
    """The file's name in words."""
    return path.name.partition(".")[0].replace("_", " ").replace("-", " ")


def missing(package: str) -> MissingDependency:
    """The error for a package of the extra that is not installed."""
    return MissingDependency(f'{package} is not installed; these files need: pip install -e ".[corpora]"')
