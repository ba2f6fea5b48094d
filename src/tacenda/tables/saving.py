"""How a private result is written: as a page, a picture or text, by the ending of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tacenda.errors import InputError
from tacenda.formats.files import write_text
from tacenda.formats.text import readable_json
from tacenda.report.charts import Chart

PICTURES = (".svg", ".pdf", ".png")


class Textual(Protocol):
    """A result that says itself as text."""

    @property
    def csv(self) -> str: ...

    @property
    def markdown(self) -> str: ...

    def to_plain(self) -> dict[str, Any]: ...


Found = TypeVar("Found", bound=Textual)


def save(
    found: Found,
    path: str | Path,
    page: Callable[[Found, Path], Path],
    charts: Callable[[Found], list[Chart]] | None = None,
) -> Path:
    """Write a result. page: makes its page; charts: what its picture shows, if it has one."""
    path = Path(path)
    if path.suffix == ".html":
        return page(found, path)
    if charts is not None and path.suffix in PICTURES:
        from tacenda.report.paper_figures import draw_charts

        return draw_charts(charts(found), path)
    texts: dict[str, Callable[[], str]] = {
        ".csv": lambda: found.csv,
        ".md": lambda: found.markdown,
        ".json": lambda: readable_json(found.to_plain()),
    }
    if path.suffix in texts:
        return write_text(path, texts[path.suffix]())
    *most, last = [".html", *texts] + (list(PICTURES) if charts else [])
    raise InputError(f"path must end in {', '.join(most)} or {last}, not {path.name!r}.")


def require_format(values: dict[str, Any], wanted: str, command: str) -> None:
    """Refuse plain values that another command wrote."""
    if values.get("format") != wanted:
        raise InputError(
            f"format must be {wanted!r}, not {values.get('format')!r}; pass what "
            f"`{command} --json` printed."
        )
