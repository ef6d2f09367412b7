# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Sections of the report: data for report.json, and HTML from that data only."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding
from .fleet import Fleet
from .markup import Child, Markup, element, join
from .numbers import number

Data = t.Mapping[str, t.Any]
T = t.TypeVar("T")


@dataclass(frozen=True)
class Detail:
    """Number of entries of a list on a page; None means all.

    A page that is too large is rendered again with fewer entries; ``place`` has all of them.
    """

    most: int | None = None
    place: str = "report.json"

    def cut(self, entries: t.Sequence[T]) -> t.Sequence[T]:
        return entries if self.most is None else entries[: self.most]

    def rest(self, entries: t.Sequence[t.Any], what: str) -> Markup | None:
        """Sentence about hidden entries."""
        more = len(entries) - len(self.cut(entries))
        return note(f"{number(more)} more {what} are in {self.place}.") if more else None

    def table(
        self, caption: str, columns: t.Sequence[Column], entries: t.Sequence[t.Any], what: str
    ) -> Markup:
        """A table of the entries, with a sentence about hidden ones."""
        return join([table(caption, columns, self.cut(entries)), self.rest(entries, what)])

    def names(self, names: t.Sequence[str], summary: str, what: str, in_sight: int = 0) -> Markup:
        """A list of names; more than ``in_sight`` are below a summary that opens it."""
        items = element("ul", [element("li", name) for name in self.cut(names)], class_="names")
        if len(names) <= in_sight:
            return items
        return folded(summary, items, self.rest(names, what))


@dataclass(frozen=True)
class Section:
    """One part of the page, in its own file in ``sections/``.

    ``collect`` returns the JSON values of report.json under ``name``, or None without data.
    ``render`` makes the HTML below the heading from them. If one of them fails, the sentence
    ``problem`` in the data replaces the section.
    """

    name: str
    title: str
    collect: t.Callable[[Fleet], t.Optional[Data]]
    render: t.Callable[[Data, Detail], Child]


def unusable(finding: Finding) -> Data:
    """Data of a failed section."""
    return {"problem": f"This part cannot be shown: {finding.problem}"}


@dataclass(frozen=True)
class Column:
    """A column of a table: title, and cell of an entry; ``is_number`` aligns it right."""

    title: str
    cell: t.Callable[[t.Any], Child]
    is_number: bool = False

    @property
    def class_(self) -> str | None:
        return "n" if self.is_number else None


def of(key: str, show: t.Callable[[t.Any], Child] = str) -> t.Callable[[Data], Child]:
    """The cell with a member of an entry."""
    return lambda entry: show(entry[key])


def table(caption: str, columns: t.Sequence[Column], entries: t.Iterable[t.Any]) -> Markup:
    """A table with row headings in the first column; each row becomes a block on a phone."""
    heads = [element("th", each.title, scope="col", class_=each.class_) for each in columns]
    first, *others = columns
    body = [
        element(
            "tr",
            element("th", first.cell(entry), scope="row"),
            [
                element("td", each.cell(entry), class_=each.class_, data_label=each.title)
                for each in others
            ],
        )
        for entry in entries
    ]
    return element(
        "table",
        element("caption", caption, class_="hidden"),
        element("thead", element("tr", heads)),
        element("tbody", body),
        class_="stack",
    )


def lead(*children: Child) -> Markup:
    """The first sentences of a section."""
    return element("p", children, class_="lead")


def folded(summary: Child, *body: Child) -> Markup:
    """A part that its summary opens."""
    return element("details", element("summary", summary), *body)


def note(*children: Child) -> Markup:
    """A note in small type."""
    return element("p", children, class_="note")


def facts(items: t.Iterable[tuple[str, str, bool]], more: Child = None) -> Markup:
    """Key figures with their words; True marks a bad one. ``more`` are further items."""
    figures = [
        element("li", element("b", value), " ", words, class_="bad" if is_bad else None)
        for value, words, is_bad in items
    ]
    return element("ul", figures, more, class_="facts")


def drawn_bar(
    value: float,
    most: float,
    kind: str,
    text: Child,
    class_: str = "bar",
    limit: float | None = None,
) -> Markup:
    """A bar with its text."""
    return element("span", meter(value, most, kind, limit), element("span", text), class_=class_)


def meter(value: float, most: float, kind: str, limit: float | None = None) -> Markup:
    """A bar of ``value`` on a scale to ``most``, with the number as text beside it.

    A line marks the ``limit``.
    """
    filled = element("i", class_=f"fill {kind}", style=f"width:{_percent(value, most)}")
    line = None
    if limit is not None:
        line = element("i", class_="limit", style=f"left:{_percent(limit, most)}")
    return element("span", filled, line, class_="track", aria_hidden="true")


def _percent(value: float, most: float) -> str:
    share = 0.0 if most <= 0 else max(0.0, min(1.0, value / most))
    return f"{100 * share:.2f}%"
