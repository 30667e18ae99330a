"""Open every page of the built site in headless Chromium and check what a reader would notice.

``python docs/check_browser.py docs/_build/html [--axe axe.min.js] [--screenshots FOLDER]``: no script error, no missing
picture, no request to another server, every formula drawn, no page wider than a screen of 400 pixels, search finds
``fast_lanczos``, the switch turns the page dark, and axe-core, if given, finds no serious fault of accessibility.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By

PICTURES = "return [...document.images].filter(i => i.complete && i.naturalWidth === 0).map(i => i.src)"
LAZY = "document.querySelectorAll('img').forEach(i => i.loading = 'eager')"
WIDTH = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
FORMULAS = """const done = arguments[0];
const all = [...document.querySelectorAll('.math')];
if (!all.length) done([0, []]);
else if (!window.MathJax?.startup?.promise) done([all.length, ['MathJax is not there']]);
else MathJax.startup.promise.then(() => document.fonts.ready).then(() => done([all.length, all.filter(
  e => !e.querySelector('mjx-container') || e.querySelector('mjx-merror') || e.getBoundingClientRect().height === 0
).map(e => e.textContent.slice(0, 60))]))"""
ELSEWHERE = """return performance.getEntriesByType('resource').map(r => r.name)
  .filter(name => /^https?:/.test(name) && !name.startsWith(location.origin))"""
AXE = (
    "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(v => \
[v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 150)])))"
)
SHOWN = ("index", "tutorials/matrix", "gallery/index", "reference/generated/specdens.fast_lanczos", "explanation/paper")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that does not talk."""

    def log_message(self, *_arguments: Any) -> None:
        """Print nothing."""


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Serve a folder and yield its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def browser() -> webdriver.Chrome:
    """Return headless Chromium that keeps its console's errors."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "SEVERE"})
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    chrome.set_script_timeout(60)
    return chrome


def page_faults(chrome: webdriver.Chrome, address: str, axe: str) -> tuple[int, list[str]]:
    """Return the number of formulas of a page, and what is wrong with it."""
    chrome.set_window_size(1280, 900)
    chrome.get(address)
    chrome.execute_script(LAZY)
    time.sleep(0.2)
    formulas, not_drawn = chrome.execute_async_script(FORMULAS)
    errors = [entry["message"] for entry in chrome.get_log("browser")]
    faults = [f"script: {error[:200]}" for error in errors]
    faults += [f"no picture: {source}" for source in chrome.execute_script(PICTURES)]
    faults += [f"formula is not drawn: {formula}" for formula in not_drawn]
    faults += [f"asks another server: {name}" for name in chrome.execute_script(ELSEWHERE)]
    if axe:
        chrome.execute_script(axe)
        found = chrome.execute_async_script(AXE)
        faults += [f"axe: {line}" for line in found if line[0] in ("serious", "critical")]
    chrome.set_window_size(400, 800)
    if (beyond := chrome.execute_script(WIDTH)) > 1:
        faults.append(f"{beyond} pixels wider than a screen of 400")
    return formulas, faults


def search_faults(chrome: webdriver.Chrome, address: str) -> list[str]:
    """Return whether search finds what everybody looks for."""
    chrome.set_window_size(1280, 900)
    chrome.get(f"{address}/search.html?q=fast_lanczos")
    for _ in range(100):
        links = [a.get_attribute("href") or "" for a in chrome.find_elements(By.CSS_SELECTOR, "#search-results li a")]
        if any("specdens.fast_lanczos" in link for link in links):
            return []
        time.sleep(0.1)
    return [f"search: fast_lanczos is not found among {len(links)} results"]


def theme_faults(chrome: webdriver.Chrome, address: str) -> list[str]:
    """Return whether the switch turns the page dark."""
    chrome.set_window_size(1280, 900)
    chrome.get(f"{address}/index.html")
    seen = {}
    for mode in ("light", "dark"):
        entry = chrome.find_element(By.CSS_SELECTOR, f".theme-switch-container button[data-mode={mode}]")
        chrome.execute_script("arguments[0].click()", entry)
        time.sleep(0.3)
        theme = chrome.execute_script("return document.documentElement.dataset.theme")
        seen[theme] = chrome.execute_script("return getComputedStyle(document.body).backgroundColor")
    if {"dark", "light"} <= set(seen) and seen["dark"] != seen["light"]:
        return []
    return [f"the switch of themes leads to {seen}"]


def screenshots(chrome: webdriver.Chrome, address: str, folder: Path) -> None:
    """Take pictures of some pages, light and dark, wide and narrow."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in SHOWN:
        for theme in ("light", "dark"):
            for width in (1280, 400):
                chrome.set_window_size(width, 1000)
                chrome.get(f"{address}/{page}.html")
                chrome.execute_script(f"document.documentElement.dataset.theme = '{theme}'")
                time.sleep(0.5)
                chrome.save_screenshot(str(folder / f"{page.replace('/', '-')}-{theme}-{width}.png"))


def main() -> None:
    """Print what is wrong and leave with 1 if something is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    axe = arguments.axe.read_text(encoding="utf-8") if arguments.axe else ""
    pages = sorted(path.relative_to(arguments.root).as_posix() for path in arguments.root.rglob("*.html"))
    pages = [page for page in pages if not page.startswith("_static/")]  # templates of the theme
    faults: list[str] = []
    formulas = 0
    with served(arguments.root) as address:
        chrome = browser()
        try:
            for page in pages:
                number, found = page_faults(chrome, f"{address}/{page}", axe)
                formulas += number
                faults += [f"{page}: {fault}" for fault in found]
            faults += search_faults(chrome, address) + theme_faults(chrome, address)
            if arguments.screenshots:
                screenshots(chrome, address, arguments.screenshots)
        finally:
            chrome.quit()
    faults += [] if formulas else ["no page has a formula"]
    checks = f"scripts, pictures, {formulas} formulas, narrow screen, search, dark theme" + (
        ", accessibility" if axe else ""
    )
    print("\n".join(faults) or f"{len(pages)} pages in Chromium: {checks} are right")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
