# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statements of the documentation pages are true: names, links, examples, tests and variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.templates import render
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import (
    build_from,
    summarize,
)
from support import ansible_yaml, pages
from support.report_documents import Case, write
from support.wao import node

ROOT = Path(__file__).resolve().parent.parent.parent
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
PAGES = pages.pages()
# Variables of the playbooks themselves, not of a role.
OTHER_VARIABLES = {
    "wattwise_kubeconfig",
    "wattwise_context",
    "wattwise_run_dir",
    "wattwise_gateway_selector",
    "advise_page",
    "advise_prometheus",
    "advise_run_dir",
    "advise_spare",
    "advise_trace",
    "observe_trust_file",
    "observe_try_endpoint",
    "observe_try_hosts_kubeconfig",
    "observe_try_hosts_context",
    "observe_try_hosts_namespaces",
    "observe_try_confirmed",
    "observe_try_labels",
    "observe_try_scheduler",
    "observe_try_standby_watts",
    "rmd_endpoints",
    "teardown_everything_of",
}

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_NAME = re.compile(r"\bwattwise\.kube\.(\w+)")
_FILE = re.compile(r"(?<![\w/.])[a-z_][a-z0-9_/]*\.py\b")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


@cache
def text_of(page: str) -> str:
    return pages.text_of(page)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of this language."""
    return [
        block.text for block in pages.blocks() if (block.page, block.language) == (page, language)
    ]


def examples() -> Iterator[Any]:
    """Content of the YAML blocks of all pages."""
    for page in PAGES:
        for body in blocks(page, "yaml"):
            yield ansible_yaml.load(body)


def values_of(value: Any, key: str) -> Iterator[Any]:
    """All values under this key, at any depth."""
    for name, member in value.items() if isinstance(value, dict) else ():
        if name == key:
            yield member
        yield from values_of(member, key)
    for item in value if isinstance(value, list) else ():
        yield from values_of(item, key)


def role_options(role: str) -> dict[str, dict[str, Any]]:
    """The variables of a role, of all its entry points, without those of the connection."""
    specs = yaml.safe_load(text_of(f"roles/{role}/meta/argument_specs.yml"))["argument_specs"]
    options: dict[str, dict[str, Any]] = {}
    for entry in specs.values():
        options.update(entry.get("options") or {})
    return {name: option for name, option in options.items() if name not in OTHER_VARIABLES}


def section(page: str, heading: str) -> str:
    """The text from a heading to the next one."""
    _before, _heading, after = text_of(page).partition(f"\n{heading}\n")
    return re.split(r"^#", after, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of each row of a table whose first cell is code."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def variables(text: str) -> list[str]:
    return [row[0].strip("`| ") for row in rows(text)]


def anchor(heading: str) -> str:
    """The anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_examples_are_yaml(page: str) -> None:
    assert all(ansible_yaml.load(body) is not None for body in blocks(page, "yaml"))


@pytest.mark.parametrize("page", PAGES)
def test_everything_of_the_collection_that_is_named_exists(page: str) -> None:
    folders = {
        "playbooks": "*.yml",
        "plugins/filter": "*.yml",
        "plugins/inventory": "*.py",
        "plugins/modules": "*.py",
        "roles": "*",
        "extensions/eda/plugins/event_source": "*.py",
        "extensions/eda/rulebooks": "*.yml",
    }
    present = {
        path.stem for folder, pattern in folders.items() for path in (ROOT / folder).glob(pattern)
    }
    # The name of the action group, in group/wattwise.kube.wattwise.
    assert set(_NAME.findall(text_of(page))) - {"wattwise"} <= present


def test_files_of_python_that_pages_and_the_library_name_exist() -> None:
    folders = ("lab", "plugins", "scripts", "tests")
    files = [str(path) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    named = {page: text_of(page) for page in PAGES}
    library = (ROOT / "plugins").rglob("*.py")
    named.update({str(path): path.read_text(encoding="utf-8") for path in library})
    missing = [
        f"{where}: {name}"
        for where, text in named.items()
        for name in _FILE.findall(text)
        if not any(file.endswith(f"/{name}") for file in files)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_playbooks_that_are_run_exist(page: str) -> None:
    named = set(re.findall(r"ansible-playbook wattwise\.kube\.(\w+)", text_of(page)))
    assert named <= {path.stem for path in (ROOT / "playbooks").glob("*.yml")}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    broken = [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page))
        if "://" not in target and not leads_somewhere(page, target)
    ]
    assert not broken


def leads_somewhere(page: str, target: str) -> bool:
    path, _hash, fragment = target.partition("#")
    destination = (ROOT / page).parent / path if path else ROOT / page
    if not destination.exists() or not fragment:
        return destination.exists()
    return fragment in map(anchor, _HEADING.findall(destination.read_text(encoding="utf-8")))


def test_the_summary_that_is_shown_has_the_form_of_a_real_one(tmp_path: Path) -> None:
    [shown] = blocks("docs/guides/report.md", "text")
    report = build_from(str(write(tmp_path, Case(pods=300))))
    told = "\n".join(summarize(report, "lab/report.html")["lines"])
    # Figures, names of nodes and paths differ; words and their order do not.
    assert words(shown) == words(told)


def test_the_figures_of_the_demo_agree() -> None:
    row = {
        line.split("|")[1].strip(): [
            float(number.replace(",", "")) for number in re.findall(r"[\d,.]*\d", line)
        ]
        for line in section("docs/guides/report.md", "## The report of the demo").splitlines()
        if line.startswith("| ")
    }
    fleet, default = row["default scheduler, measured"]
    _fleet, ours = row["wattwise, measured"]
    [asleep] = row["idle machines off, measured"]
    assert row["saved by placement and sleep"] == [pytest.approx(fleet - asleep, abs=1)]
    watts, percent = row["saved by placement"]
    # Each figure is rounded separately.
    assert watts == pytest.approx(default - ours, abs=1)
    assert percent == pytest.approx(100 * watts / default, abs=0.1)
    assert f"placement saves {percent} %" in text_of("README.md")


def words(text: str) -> list[str]:
    return [word for word in text.split() if not re.search(r"[\d/]", word)]


def test_every_part_of_the_collection_is_in_the_contents() -> None:
    text = text_of("docs/reference/contents.md")
    parts = [path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")]
    parts += [path.stem for path in (ROOT / "playbooks").glob("*.yml")]
    parts += [path.stem for path in (ROOT / "plugins" / "filter").glob("*.yml")]
    parts += [path.stem for path in (ROOT / "plugins" / "inventory").glob("*.py")]
    assert not [name for name in parts if f"`wattwise.kube.{name}`" not in text]
    assert not [role for role in ROLES if f"[`{role}`](../../roles/{role}/README.md)" not in text]


def test_every_module_has_its_place_in_the_picture() -> None:
    text = text_of("docs/reference/modules.md")
    modules = [path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")]
    assert not [name for name in modules if f"| `wattwise.kube.{name}` |" not in text]


def test_every_page_is_in_the_index() -> None:
    text = text_of("docs/README.md")
    assert [path.name for path in (ROOT / "docs").glob("*.md")] == ["README.md"]
    found = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("*/*.md")]
    assert not [name for name in found if f"({name})" not in text]


_ROLE_OF_PERMISSIONS = {
    "rmd_agent_installation": "rmd",
    "rmd_node_agent": "rmd",
    "devices_reconciliation": "devices",
    "stored_plans": "placement",
}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "rbac").glob("*.yaml")), ids=lambda p: p.stem
)
def test_the_readme_of_a_role_names_the_permissions_that_its_manifest_gives(path: Path) -> None:
    role = _ROLE_OF_PERMISSIONS.get(path.stem, path.stem)
    if role not in ROLES:
        assert role in ("account", "teardown")
        return
    table = rows(section(f"roles/{role}/README.md", "## Permissions")) + core_rows(role)
    for manifest in yaml.safe_load(path.read_text(encoding="utf-8"))["items"]:
        for rule in manifest.get("rules") or []:
            for resource in rule["resources"]:
                told = [verbs for _group, resources, verbs in table if f"`{resource}`" in resources]
                named = set(re.findall(r"\w+", " ".join(told)))
                assert set(rule["verbs"]) <= named, resource


def core_rows(role: str) -> list[list[str]]:
    """Rows about permissions whose first cell is the word core, which is not code."""
    lines = section(f"roles/{role}/README.md", "## Permissions").splitlines()
    core = [line for line in lines if line.startswith(("| core", "| the groups"))]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in core]


@pytest.mark.parametrize(
    ("page", "least"), [("reference/compatibility", 30), ("operate/security", 20)]
)
def test_the_tests_that_a_page_names_exist(page: str, least: int) -> None:
    named = _TEST.findall(text_of(f"docs/{page}.md"))
    assert len(named) > least
    missing = [f"{path}::{name}" for path, name in named if name not in defined_tests(path)]
    assert not missing


@cache
def defined_tests(path: str) -> frozenset[str]:
    """The tests of a file, in classes as ``Class::test``; none if the file does not exist."""
    if not (ROOT / path).exists():
        return frozenset()
    body = ast.parse(text_of(path)).body
    found = [item.name for item in body if isinstance(item, ast.FunctionDef)]
    found += [
        f"{item.name}::{member.name}"
        for item in body
        if isinstance(item, ast.ClassDef)
        for member in item.body
        if isinstance(member, ast.FunctionDef)
    ]
    return frozenset(found)


def test_every_threat_is_stopped_by_something_that_a_test_shows() -> None:
    text = section("docs/operate/security.md", "## Who can do what")
    _head, _rule, *lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) > 20
    for line in lines:
        _who, _writes, gain, stopped, shown = (cell.strip() for cell in line[1:-1].split("|"))
        assert gain and stopped, line
        assert _TEST.search(shown), line


def test_every_numbered_defect_has_its_row() -> None:
    table = section("docs/reference/compatibility.md", "### Numbered defects")
    assert re.findall(r"^\| (B\d+) \|", table, re.MULTILINE) == [f"B{n}" for n in range(1, 18)]


def test_the_inventory_reference_leads_to_the_variables_of_every_role() -> None:
    text = section("docs/reference/inventory.md", "## Variables of the roles")
    assert not [role for role in ROLES if f"(../../roles/{role}/README.md#variables)" not in text]


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_of_a_role_has_every_variable_with_its_type_and_default(role: str) -> None:
    table = rows(section(f"roles/{role}/README.md", "## Variables"))
    options = role_options(role)
    assert [row[0].strip("`| ") for row in table] == list(options)
    for name, kind, default, *_meaning in table:
        option = options[name.strip("`| ")]
        assert kind == option["type"], name
        assert_default(option, default, name)


def assert_default(option: dict[str, Any], shown: str, name: str) -> None:
    """A default is shown as YAML between backticks; a computed one is described in words."""
    if shown.startswith("`"):
        assert yaml.safe_load(shown.strip("`")) == option["default"], name
    else:
        assert "default" not in option, name


@pytest.mark.parametrize("role", ROLES)
def test_defaults_of_a_role_are_those_that_its_argument_specification_tells(role: str) -> None:
    defaults = yaml.safe_load(text_of(f"roles/{role}/defaults/main.yml"))
    options = role_options(role)
    # Required variables have no default.
    optional = {name for name, option in options.items() if not option.get("required")}
    assert defaults.keys() == optional
    told = {name: option["default"] for name, option in options.items() if "default" in option}
    assert {name: defaults[name] for name in told} == told


def test_the_variables_of_the_playbooks_are_in_the_inventory_reference() -> None:
    assert set(variables(text_of("docs/reference/inventory.md"))) >= OTHER_VARIABLES


def test_examples_of_inventories_use_only_variables_that_there_are() -> None:
    known = OTHER_VARIABLES.union(*map(role_options, ROLES))
    for example in examples():
        for groups in ("clusters", "bmc_gateways", "all"):
            for group in values_of(example, groups):
                hosts = (group.get("hosts") or {}).values()
                for given in (group.get("vars") or {}, *hosts):
                    assert given.keys() <= known


def test_templates_in_examples_render() -> None:
    given = [
        template
        for example in examples()
        for templates in values_of(example, "node_configs_templates")
        for template in templates
    ]
    assert len(given) >= 4
    labels = {"node.kubernetes.io/instance-type": "r650"}
    for template in given:
        selector = template["spec"]["nodeSelector"]
        wanted = {**labels, **(selector.get("matchLabels") or {})}
        for expression in selector.get("matchExpressions") or []:
            wanted[expression["key"]] = expression["values"][0]
        manifest = {"metadata": {"name": template["name"]}, "spec": template["spec"]}
        result = render({"templates": [manifest], "nodes": [node("n1", "10.0.0.7", labels=wanted)]})
        assert result["errors"] == [], template["name"]
        assert len(result["node_configs"]) == 1, template["name"]


def test_the_first_screen_of_the_readme_has_the_picture_and_two_commands_each_once() -> None:
    readme = text_of("README.md")
    first, rest = readme.split("\n## ", 1)
    assert re.findall(r"\bmake [a-z-]+", first) == ["make demo", "make test"]
    assert "make demo" not in rest
    picture, demo, title = (readme.index(part) for part in ("<picture>", "make demo", "\n## "))
    assert picture < demo < title
    assert readme[: readme.index("make test")].count("\n") < 25
