"""A hook of mkdocs: figures stay in results/, where commands make them, and the built pages show them from figures/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
FIGURE = re.compile(r"\]\((?:\.\./)+results/([\w./-]+\.png)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every figure that a page shows; one that is missing is mkdocs' own warning, and --strict refuses it."""
    from mkdocs.structure.files import File

    for name in sorted({n for path in (ROOT / "docs").rglob("*.md") for n in FIGURE.findall(path.read_text("utf-8"))}):
        if (ROOT / "results" / name).is_file():
            files.append(File.generated(config, f"figures/{name}", abs_src_path=str(ROOT / "results" / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: object, files: object) -> str:
    """Points a page's figures to where ``on_files`` put them."""
    up = "../" * page.file.src_uri.count("/")
    return FIGURE.sub(lambda match: f"]({up}figures/{match.group(1)})", markdown)
