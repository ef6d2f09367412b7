# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Sections of the report: data for report.json, and HTML from that data only."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding
from .fleet import Fleet
from .markup import Child, Markup, element
from .numbers import number

Data = t.Mapping[str, t.Any]
T = t.TypeVar("T")


@dataclass(frozen=True)
class Detail:
    """Number of entries of a list on a page; None means all.

    A page that is too large is rendered again with fewer entries.
    """

    most: int | None = None

    def cut(self, entries: t.Sequence[T]) -> t.Sequence[T]:
        return entries if self.most is None else entries[: self.most]

    def rest(self, entries: t.Sequence[t.Any], what: str) -> Markup | None:
        """Sentence about hidden entries."""
        more = len(entries) - len(self.cut(entries))
        if not more:
            return None
        return note(f"{number(more)} more {what} are in report.json.")


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
    render: t.Callable[[Data, Detail], Markup]


def unusable(finding: Finding) -> Data:
    """Data of a failed section."""
    return {"problem": f"This part cannot be shown: {finding.problem}"}


@dataclass(frozen=True)
class Column:
    """A column of a table; ``is_number`` aligns it right."""

    title: str
    is_number: bool = False


def numeric(*titles: str) -> list[Column]:
    """Columns of numbers."""
    return [Column(title, is_number=True) for title in titles]


def table(caption: str, columns: t.Sequence[Column], rows: t.Iterable[t.Sequence[Child]]) -> Markup:
    """A table with row headings in the first column; each row becomes a block on a phone."""
    classes = ["n" if column.is_number else None for column in columns]
    heads = [
        element("th", column.title, scope="col", class_=class_)
        for column, class_ in zip(columns, classes)
    ]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            [
                element("td", cell, class_=class_, data_label=column.title)
                for cell, column, class_ in list(zip(row, columns, classes))[1:]
            ],
        )
        for row in rows
    ]
    return element(
        "table",
        element("caption", caption, class_="hidden"),
        element("thead", element("tr", heads)),
        element("tbody", body),
        class_="stack",
    )


def note(*children: Child) -> Markup:
    """A note in small type."""
    return element("p", children, class_="note")


def meter(value: float, most: float, kind: str) -> Markup:
    """A bar of ``value`` on a scale to ``most``, with the number as text beside it."""
    share = 0.0 if most <= 0 else max(0.0, min(1.0, value / most))
    filled = element("i", class_=f"fill {kind}", style=f"width:{100 * share:.2f}%")
    return element("span", filled, class_="track", aria_hidden="true")
