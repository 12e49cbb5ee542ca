"""Wikitext to text: what a reader sees, on small pieces of every kind and on pages broken on purpose."""

from __future__ import annotations

import random
import time

import pytest

from r1_router.corpora.wikitext import CANONICAL, plain

SEEN = {
    "quotes": ("'''Bold''' and ''italic'', '''''both''''' of l'''amour'''", "Bold and italic, both of lamour"),
    "links": ("a [[b]], [[c|d]], [[e (f)|]], [[:Category:g]], [[h#i|j]]s", "a b, d, e, Category:g, js"),
    "a picture": ("a [[File:x.jpg|thumb|A [[b]] by [[c|d]] [http://e f]]] g", "a g"),
    "a category": ("a [[Category:b]]\n[[Image:c.png]]", "a"),
    "other languages": ("a [[fr:b]] [[zh-yue:c]] [[wikt:d|d]]", "a d"),
    "addresses": ("a [http://b c d] [https://e] [mailto:f@g h] //i", "a c d //i"),
    "templates": ("a {{b|c={{d|{{e}}}}\n|f}} g {{ h }}", "a g"),
    "templates with words": (
        "{{convert|5|to|10|km|mi|abbr=on}}, {{lang|fr|mot}}, {{nowrap|a [[b|c]]}}, {{frac|1|2}}, {{c.|1066}}",
        "5 to 10 km, mot, a c, 1/2, c. 1066",
    ),
    "a named argument": ("{{quote|text=So it {{em|is}}.|author=X}}", "So it is."),
    "references": ('a<ref>b {{c}}</ref> d<ref name="e" /> f<ref name=g>h</ref>.', "a d f."),
    "a reference left open": ("a<ref>b c\n\nd<ref>e</ref> f", "ab c\nd f"),
    "a comment": ("a<!-- b\n\nc --> d<!-- e", "a d"),
    "a table": ("a\n{| class=x\n! b\n|-\n| c || d\n{|\n| e\n|}\n|}\nf", "a\nf"),
    "a table left open": ("a\n{| class=x\n| b\n\nc d\n== E ==\nf", "a\nc d\nE.\nf"),
    "an HTML table": ("a <table><tr><td>b</td></tr></table> c", "a c"),
    "tags": ('a <span style="x>">b</span><br/>c <small>d</small> <div>e</div>', 'a ">b\nc d\ne'),
    "no tags": ("x <y and z> w, a<b, <nosuch>c</nosuch>", "x <y and z> w, a<b, <nosuch>c</nosuch>"),
    "entities": ("a &amp; b &lt;c&gt; &nbsp;d &eacute; &#65; &quot;", 'a & b <c> d é A "'),
    "nowiki": ("<nowiki>[[a]] ''b'' {{c}} &lt;</nowiki> d", "[[a]] ''b'' {{c}} < d"),
    "a formula": (r"where <math>\alpha_{{i}} <b</math> is", r"where \alpha_{ {i} } <b is"),
    "empty brackets": ("A ({{IPA|x}}; {{b}}) b ( ) c ({{d}}; born 1950)", "A b c (born 1950)"),
    "switches": ("__NOTOC__ a", "a"),
    "headings": ("a\n== B ==\n=== C ===\nd\n== E ==\n== F? ==\ng\n== H ==", "a\nB.\nC.\nd\nF?\ng"),
    "items": ("* a\n** [[b]]\n# c\n: d\n; e\n*", "a\nb\nc\nd\ne"),
    "end matter": (
        "a\n== See also ==\n* [[b]]\n== References ==\nProse stays.\n== C ==\n* d",
        "a\nReferences.\nProse stays.\nC.\nd",
    ),
    "left-over marks": ("a\n|-\n|}\n}}\nb", "a\nb"),
}


@pytest.mark.parametrize("kind", SEEN)
def test_a_reader_sees(kind: str) -> None:
    wikitext, text = SEEN[kind]
    assert plain(wikitext) == text


def test_a_wikis_own_names_for_pictures_and_categories() -> None:
    wikitext = "a [[Файл:x.jpg|b]] [[Категория:c]]"
    assert plain(wikitext, CANONICAL | {"файл", "категория"}) == "a"
    assert plain(wikitext) != "a"


MARKS = ["[[", "]]", "{{", "}}", "{|\n", "|}\n", "\n|", "<ref>", "</ref>", "<ref name=a", "''", "[", "]", "{", "}"]
MARKS += ["<!--", "-->", "\n==", "word ", "&lt;", "|"]


@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_marks_breaks_it(seed: int) -> None:
    drawn = random.Random(seed).choices(MARKS, k=400)
    assert isinstance(plain("".join(drawn)), str)


@pytest.mark.parametrize("mark", [mark for mark in MARKS if mark.strip()])
def test_a_mark_said_again_and_again_costs_little(mark: str) -> None:
    start = time.process_time()
    plain(f"{mark} a " * 20_000)
    assert time.process_time() - start < 5
