# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The page: one file without scripts, fonts, image files or requests."""

from __future__ import annotations

import typing as t

from ..base.boundary import Finding, Subject, guarded
from .markup import Child, Markup, element, join
from .numbers import counted, is_number, listed, moment
from .section import Data, Detail, Section, lead, note, unusable
from .sections import SECTIONS
from .style import STYLE

MAX_PAGE = 2_000_000
# Numbers of entries per list, tried until the page is small enough.
_LEVELS = (None, 2000, 500, 100, 20)
_FOOT = (
    "Made by wattwise.kube from the documents of one run folder, which hold no secrets. Times and "
    "ages are of these documents. The same data is in report.json."
)
# The policy blocks scripts and requests even after a mistake in escaping.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: t.Mapping[str, t.Any]) -> str:
    """The complete HTML file of a report document, of at most MAX_PAGE bytes."""
    html = ""
    for most in _LEVELS:
        html = _page(report, Detail(most))
        if len(html.encode("utf-8")) <= MAX_PAGE:
            break
    return html


def _page(report: t.Mapping[str, t.Any], detail: Detail) -> str:
    found = report["sections"]
    first = found["headline"]
    sections = [
        (section.name, section.title, _body(section, found[section.name], detail))
        for section in SECTIONS
        if section.name in found
    ]
    bodies = [part(*section, has_heading=position > 0) for position, section in enumerate(sections)]
    main = element("main", bodies[0], links(sections[1:]), bodies[1:], _left_out(report))
    count = counted(first["nodes"], "node") if is_number(first.get("nodes")) else None
    return html(report["title"], top(report, count), main, foot(_FOOT))


def _body(section: Section, data: Data, detail: Detail) -> Markup:
    """HTML of a section, or of the sentence that replaces it."""
    subject = Subject("section", section.title)
    if "problem" not in data:
        body = guarded(subject, lambda: join([section.render(data, detail)]))
        if not isinstance(body, Finding):
            return body
        data = unusable(body)
    return lead(str(data["problem"]))


def _left_out(report: t.Mapping[str, t.Any]) -> Markup | None:
    """Unreadable parts of the documents."""
    findings = [entry for entry in report.get("findings") or [] if isinstance(entry, dict)]
    if not findings:
        return None
    texts = [f"{each.get('kind')} {each.get('name')}: {each.get('problem')}" for each in findings]
    return note(
        f"Not read, as {counted(len(texts), 'entry', 'entries')} cannot be: ", listed(texts)
    )


def html(title: str, *body: Child) -> str:
    """The complete file of a page, with the style sheet and the policy in its head."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", " · ".join(filter(None, [title, "wattwise"]))),
        element("style", Markup(STYLE)),
    )
    content = element("html", head, element("body", body), lang="en")
    return f"<!doctype html>\n{content}\n"


def top(document: t.Mapping[str, t.Any], count: str | None) -> Markup:
    """The head line, with the title, the number of machines and the time of a document."""
    return element(
        "header",
        element("span", element("b", "wattwise"), class_="brand"),
        [element("span", text) for text in (document["title"], count) if text],
        element("time", moment(document["time"]), datetime=document["time"]),
    )


def part(name: str, title: str, body: Child, has_heading: bool = True) -> Markup:
    """One section of a page."""
    heading = element("h2", title) if has_heading else None
    return element("section", heading, body, id=name, aria_label=title)


def links(sections: t.Iterable[tuple[str, str, Child]]) -> Markup:
    """Links to sections, by their names and titles."""
    items = [element("li", element("a", title, href=f"#{name}")) for name, title, _body in sections]
    return element("nav", element("ul", items), aria_label="Sections")


def foot(words: str) -> Markup:
    """The end of a page."""
    return element("footer", element("p", words))
