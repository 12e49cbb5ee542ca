"""The report: figures as scored, texts escaped, the same bytes for the same run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from r1_router.report import headline, html_page, instructive, markdown, slices, write_report
from r1_router.report.charts import Bar, bars, histogram, stacked
from r1_router.types import TEXT, Question, Source, Trajectory
from report_runs import NASTY, hostile_runs, routed, run, trajectory

VOID = {"meta", "br"}
HARMLESS = {"lang", "charset", "name", "content", "http-equiv", "class", "style", "scope", "value"}
HARMLESS |= {"role", "tabindex", "aria-label", "viewbox", "x", "y", "width", "height", "d"}
"""All attributes that a page may have: none loads or runs anything."""


class Page(HTMLParser):
    """What a page holds: its text, its tags, its attributes; unbalanced tags are errors."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.attributes = "", set[str](), list[tuple[str, str]]()
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        self.text += data


def test_headline_holds_means_and_intervals() -> None:
    row = headline([run(trajectory(1, "suva"), trajectory(2, "nadi"))])[0]
    assert row[0] == "r1-router"
    assert row[1].startswith("0.500 [0.000, 1.000]")
    assert row[3:7] == ("0.50", "text 1.00", "1.25", "2")


def test_slices_set_methods_side_by_side() -> None:
    runs = [run(trajectory(1, "suva"), trajectory(2, "nadi", hops=2)), run(trajectory(1, "nadi"), method="rag")]
    parts = {one.name: one for one in slices(runs)}
    assert list(parts) == ["hops"] and parts["hops"].series == ("r1-router", "rag")
    one_hop, two_hops = parts["hops"].parts
    assert [cell and (cell[0], cell[1].mean) for cell in one_hop.cells] == [(1, 1.0), (1, 0.0)]
    assert two_hops.cells[1] is None
    assert "| 2 | 1 / 0 | 0.000 [0.000, 0.000] | - |" in markdown("b", runs)


def test_hops_are_counted_where_a_row_does_not_say_how_many() -> None:
    one, two = ({"hops": [{"kb": "text", "gold_ids": ["g"]}] * n} for n in (1, 2))
    many = [Trajectory(Question(str(len(extra["hops"])), "?", ["x"], extra=extra)) for extra in (one, two)]
    assert [part.value for part in next(slices([run(*many)])).parts] == ["1", "2"]


def test_several_benchmarks_are_told_apart() -> None:
    runs = [run(trajectory(1, "suva"), benchmark="tabfact"), run(trajectory(2, "nadi"), benchmark="webqa")]
    text = markdown("all", runs)
    assert "| r1-router, tabfact | 1.000" in text
    assert "| benchmark | questions | r1-router |" in text and "| webqa | 1 | 0.000" in text
    assert "not asked the same questions" not in text


def test_methods_asked_other_questions_are_warned_of() -> None:
    runs = [run(trajectory(1, "suva")), run(trajectory(2, "suva"), method="rag")]
    assert "not asked the same questions" in markdown("b", runs) and "not asked" in html_page("b", runs)


def test_losses_routes_and_hits_stand_in_the_tables() -> None:
    other = Source("s", "s", "")
    rows = markdown("b", [run(routed(1, "Suva gold", TEXT), routed(2, "x", TEXT), routed(3, "x", other))])
    assert "| r1-router | 1 (33%) | 0 (0%) | 1 (33%) | 0 (0%) | 1 (33%) | 0 (0%) |" in rows
    assert "| text retriever | 1 | 2 | 0 | 0 |" in rows
    assert "| r1-router | 0.833 | 0.667 | 1.000 |" in rows
    assert "| r1-router | text retriever | 2 | 0.000 | 1.000 | 1.000 | 0.500 | 0.000 | 1.000 | 1.000 |" in rows
    columns, _, means = (line.split(" | ") for line in rows.split("## Steps and costs")[1].splitlines()[4:7])
    found = dict(zip(columns, means, strict=True))
    assert (found["plans"], found["calls"], found["prompt tokens"], found["seconds"]) == ("2", "3", "90", "0.50")


def test_every_text_from_data_is_escaped() -> None:
    page = Page(html_page(f"benchmark{NASTY}", hostile_runs()))
    fields = ("benchmark", "router", "rag", "source", "question 4", "thought", "query", "passage", "gold passage")
    for field in (*fields, "sub-answer", "x", "Suva gold", "gold hop answer", "EngineError: down", "kind 1"):
        assert f"{field}{NASTY}" in page.text, field
    assert page.tags.isdisjoint({"script", "img", "link", "iframe", "object", "base"})
    text = markdown(f"benchmark{NASTY}", hostile_runs())
    outside = [line for line in text.splitlines() if "<" in line and not line.startswith("    ")]
    assert outside == []


def test_a_page_needs_no_network() -> None:
    page = html_page("b", hostile_runs())
    assert {name for name, _ in Page(page).attributes} <= HARMLESS
    assert not re.search(r"url\(|@import|https?://", page)


def test_a_pipe_in_markdown_does_not_break_the_table() -> None:
    table = markdown("factbook", [run(trajectory(1, "suva"), method="a|b\nc")])
    assert "| a\\|b c | 1.000" in table


def test_a_text_from_data_makes_no_picture_in_markdown() -> None:
    assert "![a]\\(http" in markdown("factbook", [run(trajectory(1, "suva"), method="![a](http://h/a.png)")])


def test_failed_questions_are_counted_not_dropped() -> None:
    failed = Trajectory(Question("1", "q", ["a"]), error="EngineError: down")
    row = headline([run(failed, trajectory(2, "suva"))])[0]
    assert row[1].startswith("0.500") and row[-1] == "1"


def test_instructive_mixes_right_and_wrong() -> None:
    many = [trajectory(n, "suva" if n % 2 else "nadi") for n in range(40)]
    chosen = instructive(many)
    assert len(chosen) == 10
    assert {one.answer for one in chosen} == {"suva", "nadi"}
    assert len(instructive(many[:1])) == 1


def test_instructive_shows_every_kind_of_loss() -> None:
    long = [routed(n, "x", TEXT, TEXT, TEXT) for n in range(20)]
    short = routed(20, "x", Source("s", "s", ""))
    verdicts = [trace.verdict for trace in instructive([*long, short])]
    assert verdicts[:3] == ["lost in sub-answer", "lost in routing", "lost in sub-answer"]


def test_plots_hold_their_title_and_numbers_as_text() -> None:
    plots = [
        bars("by <method>", [("group & co", [Bar("a very long name of a method", 0.25, 0.1, 0.4)])]),
        stacked("by <method>", ["right", "wrong"], [("router", [3, 12])]),
        histogram("by <method>", {0: 4, 2: 7}),
    ]
    texts = [Page(plot).text for plot in plots]
    assert all(text.count("by <method>") == 2 for text in texts)
    wanted = [("group & co", "a very long name of a method", "0.25"), ("router", "wrong", "3", "12"), ("4", "7", "2")]
    assert all(word in text for text, words in zip(texts, wanted, strict=True) for word in words)
    assert 'x="120.0" y="27.0" width="50.0"' in plots[0]
    assert 'x="36.0" y="60.0">3<' in plots[1]


def test_report_is_the_same_bytes_twice(tmp_path: Path) -> None:
    runs = [run(trajectory(1, "suva \ud800"))]
    first = write_report(tmp_path, "factbook", runs).read_bytes()
    assert write_report(tmp_path, "factbook", runs).read_bytes() == first
    assert b"http:" not in first and b"https:" not in first and b"suva ?" in first
