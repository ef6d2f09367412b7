# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What a section of the report is: data for report.json, and HTML made from that data alone."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import Finding
from ansible_collections.wattwise.kube.plugins.module_utils.report.fleet import Fleet
from ansible_collections.wattwise.kube.plugins.module_utils.report.markup import (
    Child,
    Markup,
    element,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.numbers import number

Data = t.Mapping[str, t.Any]
T = t.TypeVar("T")


@dataclass(frozen=True)
class Detail:
    """How many entries of a list a page shows; None is all of them.

    A page that would become too large is made again with less.
    """

    most: int | None = None

    def cut(self, entries: t.Sequence[T]) -> t.Sequence[T]:
        return entries if self.most is None else entries[: self.most]

    def rest(self, entries: t.Sequence[t.Any], what: str) -> Markup | None:
        """The sentence about the entries that are not shown."""
        more = len(entries) - len(self.cut(entries))
        if not more:
            return None
        return note(f"{number(more)} more {what} are in report.json.")


@dataclass(frozen=True)
class Section:
    """One part of the page, in a file of its own in ``sections/``.

    ``collect`` gives what report.json holds under ``name``, JSON values only, or None where the
    documents say nothing about it. ``render`` makes the HTML below the heading from it. Where one
    of them fails, a sentence stands for the section: ``problem`` in its data.
    """

    name: str
    title: str
    collect: t.Callable[[Fleet], t.Optional[Data]]
    render: t.Callable[[Data, Detail], Markup]


def unusable(finding: Finding) -> Data:
    """The data of a section that cannot be made."""
    return {"problem": f"This part cannot be shown: {finding.problem}"}


@dataclass(frozen=True)
class Column:
    """A column of a table; ``is_number`` sets it flush right."""

    title: str
    is_number: bool = False


def table(caption: str, columns: t.Sequence[Column], rows: t.Iterable[t.Sequence[Child]]) -> Markup:
    """A table whose first cell in a row is its heading; on a phone each row becomes a block."""
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
    """A sentence in small type."""
    return element("p", children, class_="note")


def meter(value: float, most: float, kind: str) -> Markup:
    """A bar of ``value`` on a scale to ``most``; the number stands beside it as text."""
    share = 0.0 if most <= 0 else max(0.0, min(1.0, value / most))
    filled = element("i", class_=f"fill {kind}", style=f"width:{100 * share:.2f}%")
    return element("span", filled, class_="track", aria_hidden="true")
