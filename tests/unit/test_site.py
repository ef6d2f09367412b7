# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of the documentation site, and the search for dead links; gate `site` builds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.site import links, reference
from scripts.site.sources import Sources
from support.pages import ROOT, pages


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    Sources(ROOT, folder).write()
    return folder


def test_every_page_is_in_the_site_once_and_in_its_navigation(sources: Path) -> None:
    navigation = (sources / "index.md").read_text("utf-8").partition("```{toctree}")[2]
    for page in pages():
        if page == "docs/README.md":
            continue
        title = (ROOT / page).read_text("utf-8").splitlines()[0]
        [found] = [
            str(path.relative_to(sources).with_suffix(""))
            for path in sources.rglob("*.md")
            if path.read_text("utf-8").splitlines()[0] == title and path.name != "index.md"
        ]
        roles = (sources / reference.ROLES).read_text("utf-8")
        in_roles = found.removeprefix("reference/") in roles.split()
        assert in_roles or f"<{found}>" in navigation, page


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("start/overview.md", "(getting-started.md#a-first-look)"),
        ("start/overview.md", '<img class="only-dark" alt="" src="../images/report-dark.png">'),
        ("start/overview.md", "(https://github.com/wattwise/wattwise.kube/blob/main/LICENSE)"),
        ("guides/report.md", "(../reference/documents/report.md)"),
        ("reference/roles/observe.md", "(../../guides/report.md#power-by-namespace)"),
        ("start/which.md", "(../files/docs/rbac/placement.yaml.md)"),
        ("start/getting-started.md", "(../files/docs/rbac.md)"),
        ("files/docs/rbac.md", "(rbac/placement.yaml.md)"),
    ],
)
def test_links_lead_to_the_places_of_their_files_in_the_site(
    sources: Path, page: str, link: str
) -> None:
    assert link in (sources / page).read_text("utf-8")


def test_a_link_in_a_block_stays_as_it_is(sources: Path) -> None:
    blocks = re.compile(r"^```console.*?^```$", re.MULTILINE | re.DOTALL)
    page = "start/getting-started.md"
    before = blocks.findall((ROOT / "docs" / page).read_text("utf-8"))
    after = blocks.findall((sources / page).read_text("utf-8"))
    assert [block.splitlines()[1:] for block in after] == [
        block.splitlines()[1:] for block in before
    ]


def test_a_page_lists_the_fields_of_a_document_and_of_a_kind(sources: Path) -> None:
    plan = (sources / reference.place_of_schema("plan")).read_text("utf-8")
    assert "| `placements[].uid` | string or null |  |  |" in plan
    fleet = (sources / "reference/kinds/wattwise.github.io_powerfleets.md").read_text("utf-8")
    assert "# PowerFleet (wattwise.github.io)" in fleet
    assert "| `spec.interval` | string |" in fleet


def test_the_page_of_metrics_has_those_of_all_pages_and_the_alerts(sources: Path) -> None:
    page = (sources / reference.METRICS).read_text("utf-8")
    lines = [line for name in pages() for line in (ROOT / name).read_text("utf-8").splitlines()]
    metrics = {name for line in lines for name in re.findall(r"^\| `(wattwise_\w+)` \|", line)}
    variables = re.compile(r"wattwise_(kubeconfig|context|run_dir|gateway_selector)")
    expected = {name for name in metrics if not variables.fullmatch(name)}
    assert len(expected) > 20
    assert {name for name in expected if f"| `{name}` |" not in page} == set()
    alerts = re.findall(r"alert: (\w+)", (ROOT / reference.RULES).read_text("utf-8"))
    assert alerts and all(f"| `{name}` |" in page for name in alerts)


def site(folder: Path, body: str) -> list[str]:
    """The problems of a site whose page has this body beside a page with the anchor `here`."""
    (folder / "other.html").write_text('<p id="here">')
    (folder / "index.html").write_text(body)
    return links.problems(folder)


@pytest.mark.parametrize(
    "body",
    [
        '<a href="other.html#here">',
        '<a href="#own"><p id="own">',
        '<a href="https://example.org/x">',
        '<img src="other.html"><img src="data:image/png;base64,">',
        '<link rel="canonical" href="https://example.org/">',
    ],
)
def test_links_that_lead_somewhere_are_no_problem(tmp_path: Path, body: str) -> None:
    assert site(tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="gone.html">', "gone.html leads to no file"),
        ('<a href="other.html#gone">', "other.html#gone leads to no anchor"),
        ('<a href="#gone">', "#gone leads to no anchor"),
        ('<img src="gone.png">', "gone.png leads to no file"),
        ('<img srcset="gone.png 2x">', "gone.png leads to no file"),
        (
            '<script src="https://example.org/x.js">',
            "https://example.org/x.js is loaded from another place",
        ),
        (
            '<link rel="stylesheet" href="//example.org/x.css">',
            "//example.org/x.css is loaded from another place",
        ),
    ],
)
def test_a_dead_link_and_a_resource_of_another_site_are_found(
    tmp_path: Path, body: str, problem: str
) -> None:
    assert site(tmp_path, body) == [f"index.html: {problem}"]
