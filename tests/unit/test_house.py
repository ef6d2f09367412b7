# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of this repository that no tool checks."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.version import VERSION
from scripts.collection_tree import listed_files

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted(listed_files(ROOT))
PYTHON_FILES = [path for path in FILES if path.endswith(".py")]
YAML_FILES = [
    path
    for path in FILES
    if path.endswith((".yml", ".yaml")) and path != "changelogs/changelog.yaml"
]
MODULES = [path for path in PYTHON_FILES if re.fullmatch(r"plugins/modules/[a-z]\w*\.py", path)]
MEASURED = [path for path in PYTHON_FILES if path.startswith(("plugins/", "lab/", "scripts/"))]
LICENCE_TAG = "-".join(("SPDX", "License", "Identifier"))
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}

# In pieces, so that this file contains none of them itself.
REGISTRY_HOSTS = [
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("pypi", "python", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("goproxy", "io"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("ftp", "debian", "org"),
        ("snapshot", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("crates", "io"),
        ("repo", "maven", "apache", "org"),
        ("repo1", "maven", "org"),
        ("central", "sonatype", "com"),
    )
]
MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(?:root|work|Users/\w+|home/\w+)/[\w.]")


@cache
def text_of(path: str) -> str:
    """Content of a file of the repository, with invalid UTF-8 replaced."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def covered_lines(nodes: list[ast.stmt]) -> set[int]:
    """Numbers of the lines that the statements occupy."""
    return {
        line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def documentation_lines(path: str) -> set[int]:
    """Numbers of the lines of a plugin's documentation strings."""
    return covered_lines(
        [
            node
            for node in ast.parse(text_of(path)).body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in DOCUMENTATION
        ]
    )


def test_no_file_names_a_package_registry() -> None:
    found = [
        f"{path}: {host}" for path in FILES for host in REGISTRY_HOSTS if host in text_of(path)
    ]
    assert not found


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{path}: {match.group()}"
        for path in FILES
        for match in MACHINE_PATH.finditer(text_of(path))
    ]
    assert not found


@pytest.mark.parametrize("path", PYTHON_FILES)
def test_python_file_bears_its_licence(path: str) -> None:
    library = path.startswith("plugins/module_utils/")
    licence = "BSD-2-Clause" if library else "GPL-3.0-or-later"
    head = text_of(path).splitlines()[:4]
    assert not head or f"# {LICENCE_TAG}: {licence}" in head
    assert not head or "# Copyright: Contributors to the wattwise.kube project" in head


def test_yaml_files_bear_their_licence() -> None:
    line = f"# {LICENCE_TAG}: GPL-3.0-or-later"
    annotated = reuse_patterns()
    missing = [
        path
        for path in YAML_FILES
        if line not in text_of(path).splitlines()[:4]
        and not any(pattern.fullmatch(path) for pattern in annotated)
    ]
    assert not missing


def reuse_annotations() -> list[tuple[list[str], str]]:
    """Path patterns and licence of each annotation in REUSE.toml."""
    annotations = tomllib.loads(text_of("REUSE.toml"))["annotations"]
    return [
        (
            item["path"] if isinstance(item["path"], list) else [item["path"]],
            item[LICENCE_TAG],
        )
        for item in annotations
        if LICENCE_TAG in item
    ]


def as_expression(pattern: str) -> re.Pattern[str]:
    """A path pattern of REUSE.toml: `*` stays within a folder, `**` does not."""
    parts = {"**": ".*", "*": "[^/]*"}
    return re.compile(
        "".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*|\*)", pattern))
    )


def reuse_patterns() -> list[re.Pattern[str]]:
    return [as_expression(item) for patterns, _licence in reuse_annotations() for item in patterns]


def test_samples_from_elsewhere_are_annotated_with_the_licence_of_their_source() -> None:
    for source in (path for path in FILES if path.endswith("/SOURCE.txt")):
        stated = re.search(r"^licence: (\S+)$", text_of(source), re.MULTILINE)
        annotated = [
            licence
            for patterns, licence in reuse_annotations()
            if any(as_expression(item).fullmatch(source) for item in patterns)
        ]
        assert stated is not None, source
        assert annotated[-1] == stated.group(1), source


def test_no_finding_of_the_sanity_tests_is_ignored() -> None:
    assert not [path for path in FILES if path.startswith("tests/sanity/ignore")]


@pytest.mark.parametrize("path", MODULES)
def test_module_holds_no_logic(path: str) -> None:
    documentation = documentation_lines(path)
    code = [
        line
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if number not in documentation and line.strip() and not line.lstrip().startswith("#")
    ]
    assert len(code) <= 40


@pytest.mark.parametrize("path", MEASURED)
def test_functions_are_short(path: str) -> None:
    long_functions = [
        f"{node.name}: {length} lines"
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > 40
    ]
    assert not long_functions


def test_classes_are_short() -> None:
    long_classes = {
        f"{path.removeprefix('plugins/module_utils/')}:{node.name}"
        for path in MEASURED
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.ClassDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > 200
    }
    assert not long_classes


def test_yaml_from_others_has_one_reader() -> None:
    """PyYAML's loaders let a small text cost minutes, end the process, or become other values."""
    loads = re.compile(
        r"^\s*(import yaml|from yaml)\b|\byaml_load|\bfrom_yaml\b|\bgetattr\(yaml\b"
        r"|\byaml\.(\w*load\w*|\w*Loader|\w*Parser|parse|scan|compose\w*|reader|cyaml)\b",
        re.MULTILINE,
    )
    reader = "plugins/module_utils/base/yaml_text/reader.py"
    assert loads.search(text_of(reader))
    known = {
        reader,
        "plugins/module_utils/base/libraries.py",  # imports PyYAML for all
        "plugins/filter/awx.py",  # reads the collection's own surveys
        "plugins/plugin_utils/role_variables.py",  # reads the collection's own roles
    }
    found = {
        path
        for path in PYTHON_FILES
        if path.startswith(("plugins/", "extensions/", "operator/")) and loads.search(text_of(path))
    }
    assert found == known


def test_plugins_and_lab_do_not_import_each_other() -> None:
    crossing = [
        path
        for path in PYTHON_FILES
        if (
            path.startswith("plugins/")
            and re.search(r"^\s*(from|import) lab\b", text_of(path), re.M)
        )
        or (path.startswith("lab/") and "ansible_collections.wattwise" in text_of(path))
    ]
    assert not crossing


def test_action_group_names_every_module_that_reaches_kubernetes() -> None:
    """Group defaults go to every member, so a module without these options must not be one."""
    groups = yaml.safe_load(text_of("meta/runtime.yml"))["action_groups"]
    assert groups["wattwise"] == sorted(
        Path(path).stem for path in MODULES if "- wattwise.kube.kubernetes\n" in text_of(path)
    )


@pytest.mark.parametrize("path", MODULES)
def test_module_is_named_by_a_test(path: str) -> None:
    name = re.compile(rf"\b{Path(path).stem}\b")
    tests = [
        item
        for item in FILES
        if re.fullmatch(r"tests/.*/test_\w+\.py|extensions/molecule/.*\.yml", item)
    ]
    assert any(name.search(text_of(item)) for item in tests)


def test_servers_see_the_version_of_the_collection() -> None:
    assert yaml.safe_load(text_of("galaxy.yml"))["version"] == VERSION


def test_version_is_that_of_the_changelog() -> None:
    version = yaml.safe_load(text_of("galaxy.yml"))["version"]
    fragments = [path for path in FILES if path.startswith("changelogs/fragments/")]
    if "changelogs/changelog.yaml" not in FILES:
        assert fragments
        return
    releases = yaml.safe_load(text_of("changelogs/changelog.yaml"))["releases"]
    assert version in releases or fragments
    assert all(as_numbers(version) >= as_numbers(release) for release in releases)


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_links_within_the_documentation_lead_somewhere() -> None:
    broken = [
        f"{path}: {target}"
        for path in FILES
        if path.endswith(".md")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(path))
        if "://" not in target
        and not target.startswith("mailto:")
        and not (ROOT / path).parent.joinpath(target).exists()
    ]
    assert not broken
