"""Wikitext to plain text: prose, headings and list items stay; templates, tables, references and pictures go.

Every step is a pass of a compiled pattern, possessive and innermost first, so that a broken page takes no longer than
a sound one; each pattern begins with a character of its own, which the engine finds at the speed of memory. Brackets
that nothing closes stay as they stand.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection

from r1_router.corpora.templates import rendered

CANONICAL = frozenset({"file", "image", "media", "category"})
"""Namespaces whose links show no text where they stand, as every wiki knows them; each has its own names too."""

_WITH_CONTENT = (
    "ref|references|gallery|timeline|score|graph|mapframe|maplink|imagemap|hiero|table|"
    "syntaxhighlight|source|templatedata|templatestyles|inputbox|categorytree|includeonly|style|script"
)
_WITHOUT_CONTENT = (
    "abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|nobr|noinclude|nowiki|onlyinclude|q|rb|rp|rt|"
    "ruby|s|samp|section|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
_BREAKS = "blockquote|br|caption|center|dd|div|dl|dt|h[1-6]|hr|li|ol|p|poem|pre|td|th|tr|ul"

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LITERAL = re.compile(r"<(nowiki|pre|math|chem|ce)(?:\s[^<>]*)?(?<!/)>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
_MARKUP = re.compile(r"[][{}|'<>=*#:;&_!]")
_ELEMENT = re.compile(
    rf"<(?P<name>{_WITH_CONTENT})\b(?:[^<>]*/>|[^<>]*>[^<]*+(?:<(?!/?(?P=name)\b)[^<]*+)*+</(?P=name)\s*>)",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"\{\{\{[^{}]*+\}\}\}")
_TEMPLATE = re.compile(r"\{\{([^{}]*+(?:(?:\{(?!\{)|\}(?!\}))[^{}]*+)*+)\}\}")
_TABLE_MARK = re.compile(r"\n[ \t:*#]*(?:(\{\|)|\|\}(?!\}))")
_TABLE_LINE = re.compile(r"^[ \t]*(?:\{\||[|!]).*\n?", re.MULTILINE)
_OUTSIDE_LINK = re.compile(
    r"\[(?:(?:(?:https?|ftp|irc|news):)?//[^][\s<>]*+[ \t]*+([^][\n]*+)|mailto:[^][\n]*+)\]", re.IGNORECASE
)
_PLAIN_LINK = re.compile(r"\[\[(?:[^][|:\n]++\|)?+([^][|:\n]++)\]\]")
_LINK = re.compile(r"\[\[([^][]*+(?:\[[^][]*+\](?!\])[^][]*+)*+)\]\]")
_LANGUAGE = re.compile(r"(?:[a-z]{2,3}|simple|[a-z]{2,3}(?:-[a-z]+)+)\Z")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\Z|,[^,]*\Z")
_BREAK = re.compile(rf"</?(?:{_BREAKS})\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(rf"</?(?:{_WITHOUT_CONTENT}|{_WITH_CONTENT})\b[^<>]*>", re.IGNORECASE)
_SWITCH = re.compile(r"__[A-Z]+__")
_EMPTY = re.compile(r"\((?:[ \xa0,;:/]|or|and)*\)")
_OPENED = re.compile(r"\([ \xa0,;:]+")
_GONE = "\0"
"""Stands for a moment where empty brackets stood; no XML text can hold it."""
_ITEMS = "*#:;"
_MARKS = f"=-.|{{}}{_ITEMS}"
"""What a line begins with that may be more, or less, than a paragraph."""
_HEADING = re.compile(r"(={1,6})\s*(.*?)\s*\1\s*\Z")
_END_MATTER = frozenset(
    {
        "citations",
        "external links",
        "footnotes",
        "further reading",
        "notes",
        "notes and references",
        "references",
        "references and notes",
        "see also",
        "sources",
    }
)


def plain(wikitext: str, unseen: Collection[str] = CANONICAL) -> str:
    """The text that a reader sees, a paragraph, heading or list item a line.

    `unseen`: the lower-case names of namespaces whose links show nothing. Headings end in a full stop, those over
    nothing are left out, as are the items of sections such as See also: they are names, addresses and references.
    """
    text = _COMMENT.sub("", wikitext)
    text = _LITERAL.sub(_spelt_out, text)
    text = _ELEMENT.sub("", text)
    text = _without_templates(text)
    text = _without_tables(text)
    text = _without_links(text, unseen)
    text = text.replace("'''", "").replace("''", "")
    text = _SWITCH.sub("", _TAG.sub("", _BREAK.sub("\n", text)))
    return "\n".join(_lines(_without_empty_brackets(html.unescape(text))))


def _without_empty_brackets(text: str) -> str:
    """No brackets, nor commas after an opening one, round what is gone."""
    text = _EMPTY.sub(_GONE, text).replace(f" {_GONE}", "").replace(_GONE, "")
    return _OPENED.sub("(", text)


def _spelt_out(literal: re.Match[str]) -> str:
    """Text that is no markup, a formula among it: its marks as entities, characters again once all markup is gone."""
    text = html.unescape(literal[2])
    if literal[1].lower() == "math":  # a space parts braces, which says the same in TeX and cannot be taken for markup
        text = text.replace("\n", " ").replace("{{", "{ {").replace("}}", "} }")
    return _MARKUP.sub(lambda mark: f"&#{ord(mark[0])};", text)


def _without_templates(text: str) -> str:
    """Innermost first: what an inner one says is part of the outer one's arguments."""
    text = _PARAMETER.sub("", text) if "{{{" in text else text
    found = 1
    while found and "{{" in text:
        text, found = _TEMPLATE.subn(rendered, text)
    return text


def _without_tables(text: str) -> str:
    """Cut each outermost table out; of one that nothing closes, only the lines that begin as a table's do."""
    if "{|" not in text:
        return text
    text = f"\n{text}"
    kept, position, depth, start = [], 1, 0, 0
    for mark in _TABLE_MARK.finditer(text):
        if mark[1]:
            start = start if depth else mark.start() + 1
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                kept.append(text[position:start])
                position = mark.end()
    if depth:
        kept += text[position:start], _TABLE_LINE.sub("", text[start:])
        return "".join(kept)
    return "".join([*kept, text[position:]])


def _without_links(text: str, unseen: Collection[str]) -> str:
    """Links as their labels, innermost first, since a picture's caption has links of its own."""

    def label(link: re.Match[str]) -> str:
        target, bar, shown = link[1].partition("|")
        namespace, colon, _ = target.partition(":")
        if colon and namespace.strip().lower() in unseen:
            return ""
        if colon and not bar and _LANGUAGE.match(namespace):
            return ""
        return shown or _QUALIFIER.sub("", target.lstrip(":")) if bar else target.lstrip(":")

    text = _labelled(text)
    found = 1
    while found and "[[" in text:
        # Splitting by a pattern with one group and joining is `sub(r"\1", ..)` at a third of its time.
        text, found = _LINK.subn(label, "".join(_PLAIN_LINK.split(text)))
    return _labelled(text) if "[" in text else text


def _labelled(text: str) -> str:
    return _OUTSIDE_LINK.sub(lambda link: link[1] or "", text)


def _lines(text: str) -> list[str]:
    """The lines with something on them, headings only where text follows, items without their marks."""
    found: list[str] = []
    waiting: list[tuple[int, str]] = []  # headings that no text has followed yet
    end_matter = False
    for line in text.replace("\xa0", " ").replace("\t", " ").split("\n"):
        line = line.strip()
        if not line:
            continue
        if line[0] in _MARKS:
            if not line.strip("-.|{}"):
                continue
            if line[0] == "=" and (heading := _HEADING.match(line)):
                level, title = len(heading[1]), heading[2]
                waiting = [one for one in waiting if one[0] < level]
                waiting.append((level, title if title.endswith((".", "?", "!")) else f"{title}."))
                end_matter = title.lower() in _END_MATTER
                continue
            if line[0] in _ITEMS and (end_matter or not (line := line.lstrip("*#:; "))):
                continue
        if waiting:
            found += [title for _, title in waiting]
            waiting.clear()
        found.append(" ".join(line.split()) if "  " in line else line)
    return found
