# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The page: one file without scripts, fonts, image files or requests."""

from __future__ import annotations

import typing as t

from ..base.boundary import Finding, Subject, guarded
from .markup import Child, Markup, element
from .numbers import counted, is_number, listed, moment
from .section import Data, Detail, Section, note, unusable
from .sections import SECTIONS
from .style import STYLE

MAX_PAGE = 2_000_000
# Numbers of entries per list, tried until the page is small enough.
_LEVELS = (None, 2000, 500, 100, 20)
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
    shown = [section for section in SECTIONS if section.name in found]
    bodies = [
        element(
            "section",
            None if section.name == "headline" else element("h2", section.title),
            _body(section, found[section.name], detail),
            id=section.name,
            aria_label=section.title,
        )
        for section in shown
    ]
    title = f"{report['title']} · wattwise" if report["title"] else "wattwise"
    main = element("main", bodies[0], _links(shown), bodies[1:], _left_out(report))
    body = element("body", _top(report, first), main, _foot())
    return "<!doctype html>\n" + element("html", head(title), body, lang="en") + "\n"


def _body(section: Section, data: Data, detail: Detail) -> Markup:
    """HTML of a section, or of the sentence that replaces it."""
    subject = Subject("section", section.title)
    if "problem" not in data:
        body = guarded(subject, lambda: section.render(data, detail))
        if not isinstance(body, Finding):
            return body
        data = unusable(body)
    return element("p", str(data["problem"]), class_="lead")


def _left_out(report: t.Mapping[str, t.Any]) -> Markup | None:
    """Unreadable parts of the documents."""
    findings = [entry for entry in report.get("findings") or [] if isinstance(entry, dict)]
    if not findings:
        return None
    texts = [f"{each.get('kind')} {each.get('name')}: {each.get('problem')}" for each in findings]
    return note(
        f"Not read, as {counted(len(texts), 'entry', 'entries')} cannot be: ", listed(texts)
    )


def head(title: str) -> Markup:
    """The head of a page, with the style sheet and the policy."""
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", title),
        element("style", Markup(STYLE)),
    )


def _top(report: t.Mapping[str, t.Any], first: t.Mapping[str, t.Any]) -> Markup:
    facts: list[Child] = [element("span", element("b", "wattwise"), class_="brand")]
    if report["title"]:
        facts.append(element("span", report["title"]))
    if is_number(first.get("nodes")):
        facts.append(element("span", counted(first["nodes"], "node")))
    facts.append(element("time", moment(report["time"]), datetime=report["time"]))
    return element("header", facts)


def _links(shown: t.Sequence[t.Any]) -> Markup:
    links = [
        element("li", element("a", section.title, href=f"#{section.name}")) for section in shown[1:]
    ]
    return element("nav", element("ul", links), aria_label="Sections")


def _foot() -> Markup:
    words = (
        "Made by wattwise.kube from the documents of one run folder, which hold no secrets. Times "
        "and ages are of these documents. The same data is in report.json."
    )
    return element("footer", element("p", words))
