"""The report's page in a real browser, and its colours by measure; the browser is skipped where there is none."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from r1_router.report import write_report
from r1_router.report.style import STYLE
from report_runs import hostile_runs

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE = 360
SCHEMES = {"light": 1, "dark": 0}
"""The browser's own numbers for the reader's preferred colours."""


def colours(scheme: str) -> dict[str, tuple[int, ...]]:
    """The page's colours by name, as red, green and blue."""
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")
    named = re.findall(r"--(\w+): #([0-9a-f]{6})", light if scheme == "light" else dark)
    return {name: tuple(bytes.fromhex(value)) for name, value in named}


def luminance(colour: tuple[int, ...]) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_colours_are_readable(scheme: str) -> None:
    """Text on paper, and the numbers that stand in paper's colour on a plot's parts: 4.5 to 1, as WCAG AA asks."""
    found = {name: luminance(colour) + 0.05 for name, colour in colours(scheme).items()}
    paper = found.pop("paper")
    del found["line"]
    assert len(found) == 9
    assert {name: ratio for name, one in found.items() if (ratio := max(one, paper) / min(one, paper)) < 4.5} == {}


@pytest.fixture
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    if "snap" in str(Path(found).resolve()):
        pytest.skip("the browser is a snap, which may not read temporary files")
    return found


def browse(browser: str, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open the page without a window, in a profile of its own; the console's messages come on stderr."""
    profile = f"--user-data-dir={page.parent / 'profile'}"
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr")
    command = [browser, *quiet, profile, *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write_report(tmp_path, "factbook", hostile_runs())


def test_the_page_opens_without_a_word_on_the_console(browser: str, page: Path) -> None:
    done = browse(browser, page, "--dump-dom")
    assert "<h2>Where questions are lost</h2>" in done.stdout and "CONSOLE" not in done.stderr


def test_a_script_that_slipped_in_would_not_run(browser: str, page: Path) -> None:
    page.write_text(page.read_text().replace("<h2>", "<script>document.title = 'taken over'</script><h2>", 1))
    done = browse(browser, page, "--dump-dom")
    assert "<title>factbook, 7 questions</title>" in done.stdout
    assert "CONSOLE" in done.stderr and "Content Security Policy" in done.stderr


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_follows_the_readers_scheme(browser: str, page: Path, scheme: str) -> None:
    picture = page.with_name("page.png")
    flags = ("--window-size=1000,1400", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}")
    browse(browser, page, *flags, f"--screenshot={picture}")
    with Image.open(picture) as shot:
        seen = {colour for _, colour in shot.convert("RGB").getcolors(1 << 24) or ()}
        corner = shot.convert("RGB").getpixel((2, 2))
    found = colours(scheme)
    assert corner == found["paper"]
    assert {found["text"], found["hue0"], found["hue1"]} <= seen


def test_the_page_fits_a_phone(browser: str, page: Path) -> None:
    """In a frame as wide as a phone, the page is no wider; only tables scroll in their own boxes."""
    frame = f'<iframe style="border: 0; width: {PHONE}px" srcdoc="{html.escape(page.read_text())}"></iframe>'
    measure = "onload = () => { document.title = frames[0].document.documentElement.scrollWidth }"
    phone = page.with_name("phone.html")
    phone.write_text(f"<!doctype html><title></title>{frame}<script>{measure}</script>")
    assert f"<title>{PHONE}</title>" in browse(browser, phone, "--dump-dom").stdout
