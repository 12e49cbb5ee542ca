"""Your own text to passages: Markdown, HTML, plain text, JSONL and PDF, in windows of words with the title first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from r1_router.corpora.pages import missing, parse_html, title_of_name
from r1_router.corpora.rows import Outcome, Row, Skipped, each_file, json_lines, read_text, text_of
from r1_router.corpora.windows import Windowing, titled_segments
from r1_router.errors import DataError

Part = tuple[str, str, str] | Skipped
"""Id, title and text of a document, or of a section of one."""
HIDDEN_TAGS = ("script", "style", "noscript", "nav", "header", "footer", "template")
BLOCK_TAGS = (
    *("p", "div", "li", "br", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "pre", "blockquote"),
    *("ul", "ol", "dt", "dd", "table", "caption", "tr", "td", "th", "figure", "figcaption"),
)
"""Their words never join those before or after them."""

_FENCE = re.compile(r"^(```|~~~)")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_EMPHASIS = re.compile(r"(\*\*|__|(?<!\w)[*_](?=\S))(.+?)\1")


def read_documents_of(source: Path, windowing: Windowing | None = None) -> Iterator[Outcome]:
    """Passages of one file, or of a folder's files whose endings `READERS` names; texts under 6 words are skipped."""
    cut = windowing or Windowing()

    def read(path: Path, name: str) -> Iterator[Outcome]:
        ending = next(ending for ending in READERS if path.name.lower().endswith(ending))
        for part in READERS[ending](path, name):
            if isinstance(part, Skipped):
                yield part
                continue
            identity, title, text = part
            texts = titled_segments(text.strip(), title, cut)
            if not texts:
                yield Skipped(f"{path}, {identity}: fewer than 6 words")
            yield from (Row(f"{identity}/{number}", title, found) for number, found in enumerate(texts))

    return each_file(source, READERS, read)


def _from_text(path: Path, name: str) -> Iterator[Part]:
    yield name, title_of_name(path), read_text(path)


def _from_markdown(path: Path, name: str) -> Iterator[Part]:
    """A part a section; its title is the document's first heading and its own."""
    document, sections, fenced = "", [("", list[str]())], False
    for line in read_text(path).splitlines():
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (heading := _HEADING.match(line)):
            document = document or heading[2]
            sections.append((heading[2], []))
        elif not _FENCE.match(line):
            sections[-1][1].append(line if fenced else _unmarked(line))
    document = document or title_of_name(path)
    for number, (heading_text, lines) in enumerate(sections):
        if text := "\n".join(lines).strip():
            title = document if heading_text in ("", document) else f"{document}: {heading_text}"
            yield f"{name}/{number}", title, text


def _unmarked(line: str) -> str:
    line = _LINK.sub(r"\1", _PICTURE.sub(r"\1", line))
    return _EMPHASIS.sub(r"\2", line).replace("`", "")


def _from_html(path: Path, name: str) -> Iterator[Part]:
    page, title = parse_html(path)
    title = title or title_of_name(path)
    body = page.find("body")
    body = page if body is None else body
    for hidden in list(body.iter(*HIDDEN_TAGS)):
        hidden.drop_tree()
    for block in body.iter(*BLOCK_TAGS):
        block.text, block.tail = "\n" + (block.text or ""), "\n" + (block.tail or "")
    lines = (" ".join(line.split()) for line in body.text_content().splitlines())
    yield name, title, "\n".join(filter(None, lines))


def _from_jsonl(path: Path, name: str) -> Iterator[Part]:
    for number, record in json_lines(path, read_text(path)):
        if isinstance(record, Skipped):
            yield record
            continue
        text = text_of(record, ("text", "contents", "content")) if isinstance(record, dict) else ""
        if text:
            yield text_of(record, ("id", "_id")) or f"{name}/{number}", text_of(record, ("title",)), text
        else:
            yield Skipped(f"{path}, line {number}: no string 'text', 'contents' or 'content'; add one")


def _from_pdf(path: Path, name: str) -> Iterator[Part]:
    """A part a page, so that a passage can be found again; pages of pictures alone are skips."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ModuleNotFoundError as error:
        raise missing("pypdf") from error
    try:
        reader = PdfReader(path)
        title = str((reader.metadata and reader.metadata.title) or "") or title_of_name(path)
        pages = [page.extract_text() for page in reader.pages]
    except (PyPdfError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: no PDF that can be read ({error}); save it again, without a password.") from error
    for number, text in enumerate(pages, start=1):
        if text.strip():
            yield f"{name}/page-{number}", title, text
        else:
            yield Skipped(f"{path}, page {number}: no text in it; a scan has to be recognised first")


READERS: dict[str, Callable[[Path, str], Iterator[Part]]] = {
    ".md": _from_markdown,
    ".markdown": _from_markdown,
    ".html": _from_html,
    ".htm": _from_html,
    ".txt": _from_text,
    ".jsonl": _from_jsonl,
    ".jsonl.gz": _from_jsonl,
    ".pdf": _from_pdf,
}
"""By how a file's name ends."""
