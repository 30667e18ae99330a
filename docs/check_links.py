"""Check every internal link, anchor and picture of the built site, and that the reference has every public name."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors and the internal addresses of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.addresses: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note ids, names, links and sources."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif (name == "href" and tag in ("a", "link")) or (name == "src" and tag in ("img", "script")):
                self.addresses.append(value or "")


def broken_links(root: Path) -> list[str]:
    """Return a line for each address that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in root.rglob("*.html") if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{path.relative_to(root.resolve())}: no file {address}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{path.relative_to(root.resolve())}: no anchor {address}")
    return found


def missing_names(root: Path) -> list[str]:
    """Return the public names without a page of the reference."""
    import specdens_torch

    import specdens

    names = [f"specdens.{name}" for name in specdens.__all__ if name not in ("__version__", "analysis")]
    names += [f"specdens.analysis.{name}" for name in specdens.analysis.__all__]
    names += [f"specdens_torch.{name}" for name in specdens_torch.__all__]
    return [name for name in names if not (root / "reference" / "generated" / f"{name}.html").exists()]


def main() -> None:
    """Print what is wrong and leave with 1 if something is."""
    root = Path(sys.argv[1])
    problems = broken_links(root) + [f"reference: {name} is missing" for name in missing_names(root)]
    print("\n".join(problems) or f"{len(list(root.rglob('*.html')))} pages: all links, anchors and names are there")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
