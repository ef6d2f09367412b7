# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fenced block of every page is of a kind that is checked; an unknown kind fails.

The kind is in the fence's first line. Blocks ``console lab`` are also run, by
``tests/integration/test_document_commands.py``, and ``console samples`` here.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import typing as t
from functools import cache
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.wattwise.kube.plugins.module_utils.inference import wire
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from ansible_collections.wattwise.kube.plugins.module_utils.prices.reader import read_series
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import read_trace
from lab import predictor
from lab.errors import LabError
from lab.predictor import recorded
from scripts.release import chart
from support import ansible_yaml
from support.code_texts import code_texts, matches
from support.pages import ROOT, Block, blocks, pages, prose
from support.playbook import environment
from support.recorded_samples import run_folder, write_samples

BLOCKS = blocks()
BY_KIND: dict[str, list[Block]] = {}
for _block in BLOCKS:
    BY_KIND.setdefault(_block.kind, []).append(_block)

# Fence → checker of such a block, so that a new kind requires a new test.
KINDS = {
    "yaml": "inventory, playbook, variables or manifests, told apart by their content, below",
    "mermaid": "drawn from the imports, which gate `rooms` compares",
    "console": "each command is looked at below; with `lab` it is also run on the lab",
    "console lab": "the same",
    "console samples": "run below, on recorded samples",
    "csv samples.csv": "the columns of lab.predictor, below",
    "json request": "held against the library's own request, below",
    "text message": "a message of the code, below",
    "text terminal": "tests/unit/test_documentation.py",
    "text diagram": "names of modules, below",
    "text tree": "paths of the repository, below",
    "text source": "the fields of a SOURCE.txt, below",
    "text trace": "demand that fleet_advice_info reads, below",
    "text prices": "a series of prices, below",
    "yaml expected": "an entry of tests/conformance/redfish/expected.yaml, below",
}


def of_kind(*kinds: str) -> list[t.Any]:
    found = [block for kind in kinds for block in BY_KIND.get(kind, [])]
    return [pytest.param(block, id=str(block)) for block in found]


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    unknown = [
        f"{block}: {block.kind!r}"
        for block in BLOCKS
        if block.kind not in KINDS and not re.fullmatch(r"yaml [\w-]+\.yml", block.kind)
    ]
    assert not unknown, f"write one of {', '.join(KINDS)}, or add a kind with its test"


def test_no_block_is_without_a_fence() -> None:
    """Four spaces also make a block, which these tests would not see."""
    indented = re.compile(r"\n\n {4}\S")
    assert not [page for page in pages() if indented.search(prose(page))]


# YAML


def named(block: Block) -> bool:
    return block.kind == "yaml" or bool(re.fullmatch(r"yaml [\w-]+\.yml", block.kind))


YAML = [pytest.param(block, id=str(block)) for block in BLOCKS if named(block)]


@pytest.mark.parametrize("block", YAML)
def test_yaml_is_something_that_is_known(block: Block) -> None:
    content = documents(block)
    assert content
    for document in content:
        if is_manifest(document):
            assert_manifest(document)
        elif isinstance(document, list):
            assert_playbook(document)
        elif "plugin" in document:
            assert_inventory_source(document)
        elif document.keys() <= {"all", "awx", "clusters", "bmc_gateways", "nodes"}:
            assert_inventory(document)
        else:
            assert_variables(document)


def documents(block: Block) -> list[t.Any]:
    return [ansible_yaml.load(text) for text in re.split(r"^---$", block.text, flags=re.MULTILINE)]


def is_manifest(document: t.Any) -> bool:
    return isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys()


def assert_manifest(document: dict[str, t.Any]) -> None:
    """An object of our own kinds follows its CRD; for others only the form is checked."""
    assert document["metadata"]["name"]
    served = [
        item for item in definitions() if item.serves(document["apiVersion"], document["kind"])
    ]
    if served:
        assert [item.problem(document) for item in served] == [None]
    else:
        assert "." not in document["apiVersion"] or ".k8s.io/" in document["apiVersion"]


def assert_inventory(document: dict[str, t.Any]) -> None:
    for group in document.values():
        for variables in (group.get("vars"), *(group.get("hosts") or {}).values()):
            assert_variables(variables or {})


def assert_inventory_source(document: dict[str, t.Any]) -> None:
    """The options of an inventory plugin of ours, including those that it extends."""
    name = document["plugin"].removeprefix("wattwise.kube.")
    text = (ROOT / "plugins" / "inventory" / f"{name}.py").read_text()
    documentation = yaml.safe_load(text.split('DOCUMENTATION = r"""')[1].split('"""')[0])
    own = documentation["options"].keys()
    extended = {"keyed_groups", "groups", "compose", "strict", "cache", "kubeconfig", "context"}
    assert document.keys() <= own | extended


def assert_variables(given: dict[str, t.Any]) -> None:
    """Each is a role's, or one of the playbooks' own, and has the required type."""
    options = role_options()
    unknown = given.keys() - options.keys() - playbook_variables()
    assert not unknown
    chosen = {name: dict(options[name], required=False) for name in given if name in options}
    values = {name: plain(given[name]) for name in chosen}
    result = ArgumentSpecValidator(chosen).validate(values)
    assert not result.error_messages


def plain(value: t.Any) -> t.Any:
    """Without Ansible's tags, which argument specifications do not know."""
    return json.loads(json.dumps(value, default=str))


def assert_playbook(plays: list[dict[str, t.Any]]) -> None:
    """The variables of its roles are right; a single test checks the syntax of all playbooks."""
    for play in plays:
        assert "hosts" in play
        for role in play.get("roles") or []:
            if isinstance(role, dict):
                assert_variables(role.get("vars") or {})


def test_the_syntax_of_all_playbooks(tmp_path: Path) -> None:
    paths = []
    for number, block in enumerate(BLOCKS):
        if named(block) and isinstance(documents(block)[0], list):
            path = tmp_path / f"{number}.yml"
            path.write_text(block.text)
            paths.append(str(path))
    assert len(paths) > 4
    command = [sys.executable, "-m", "ansible", "playbook", "--syntax-check", *paths]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@cache
def role_options() -> dict[str, dict[str, t.Any]]:
    """The variables of all roles and of all their entry points."""
    options: dict[str, dict[str, t.Any]] = {}
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            options.update(entry.get("options") or {})
    return options


@cache
def playbook_variables() -> set[str]:
    """Variables that the inventory reference names beside the roles'."""
    text = (ROOT / "docs" / "reference" / "inventory.md").read_text()
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


@cache
def definitions() -> list[CrdValidator]:
    """Kinds that our roles install."""
    manifests = [
        manifest
        for path in (ROOT / "roles").glob("*/files/*.yaml")
        for manifest in yaml.safe_load_all(path.read_text())
    ]
    return [
        CrdValidator(manifest)
        for manifest in manifests
        if manifest["kind"] == "CustomResourceDefinition"
    ]


# Commands

CONSOLE = of_kind("console", "console lab", "console samples")


@pytest.mark.parametrize("block", CONSOLE)
def test_commands_are_known_and_have_the_options_that_they_name(block: Block) -> None:
    assert block.commands
    for command in block.commands:
        words = shlex.split(command, comments=True)
        program = Path(words[0]).name
        assert program in PROGRAMS, f"{command}: no test looks at {program}"
        PROGRAMS[program](words)


def check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    target = words[1]
    assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE) or target == "help"


def check_playbook(words: list[str]) -> None:
    name = words[1].removeprefix("wattwise.kube.")
    if name != words[1]:
        assert (ROOT / "playbooks" / f"{name}.yml").exists()
        if "--tags" in words:
            tags = set(words[words.index("--tags") + 1].split(","))
            text = (ROOT / "playbooks" / f"{name}.yml").read_text()
            assert tags <= set(re.findall(r"\w+", " ".join(re.findall(r"tags: \[(.*)\]", text))))
    known = {"-i", "-e", "--tags", "--check", "--diff", "--limit", "-v", "-vv", "-f"}
    assert {word for word in words[2:] if word.startswith("-")} <= known
    for position, word in enumerate(words):
        if word == "-e" and "=" in words[position + 1]:
            variable = words[position + 1].partition("=")[0]
            assert variable in role_options() or variable in playbook_variables()


def check_python(words: list[str]) -> None:
    """Our own programs check the command and its options."""
    assert words[1] == "-m" and words[2] in ("lab", "lab.predictor")
    done = subprocess.run(
        [sys.executable, "-m", words[2], words[3], "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in words[4:] if word.startswith("--"))


def check_navigator(words: list[str]) -> None:
    """A run has the options of ansible-playbook, and one of its own."""
    assert words[1] == "run"
    if "--ee" in words:
        position = words.index("--ee")
        assert words[position + 1] in ("true", "false")
        words = words[:position] + words[position + 2 :]
    check_playbook(words[1:])


def check_rulebook(words: list[str]) -> None:
    """tests/integration runs rulebooks with the program; this checks only their existence."""
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options.keys() <= {"--rulebook", "--vars", "--controller-url", "-i"}
    name = options["--rulebook"].removeprefix("wattwise.kube.")
    assert (ROOT / "extensions" / "eda" / "rulebooks" / f"{name}.yml").exists()


def check_galaxy(words: list[str]) -> None:
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    if words[1:3] == ["collection", "install"]:
        assert words[3] == f"wattwise-kube-{version}.tar.gz"
    else:
        assert words[1:3] == ["collection", "build"]


def check_pip(words: list[str]) -> None:
    required = (ROOT / "requirements.txt").read_text()
    required += (ROOT / "requirements" / "development.in").read_text()
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    required += f"\nansible-core{runtime['requires_ansible']}"
    assert words[1] == "install"
    if "-r" in words:
        file = words.pop(words.index("-r") + 1)
        assert file == "requirements.txt"
        words.remove("-r")
    assert all(f"\n{word}" in required for word in words[2:])


def check_helm(words: list[str]) -> None:
    """The chart has the version, and the schema the values."""
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    assert (words[1], words[3]) == ("install", f"{chart.NAME}-{version}.tgz")
    assert set(words[4::2]) == {"--set"}
    for value in words[5::2]:
        part: t.Any = chart.schema({})
        for name in value.partition("=")[0].split("."):
            part = part["properties"][name]


def check_doc(words: list[str]) -> None:
    assert (ROOT / "plugins" / "modules" / f"{words[1].rpartition('.')[2]}.py").exists()


def check_nothing_more(words: list[str]) -> None:
    """Not checked here; if it can be run, the block is of kind `console lab`."""


PROGRAMS: dict[str, t.Callable[[list[str]], None]] = {
    "make": check_make,
    "helm": check_helm,
    "ansible-playbook": check_playbook,
    "ansible-navigator": check_navigator,
    "ansible-rulebook": check_rulebook,
    "ansible-galaxy": check_galaxy,
    "ansible-doc": check_doc,
    "antsibull-changelog": check_nothing_more,
    "export": check_nothing_more,
    "kubectl": check_nothing_more,
    "mlserver": check_nothing_more,
    "nox": check_nothing_more,
    "pip": check_pip,
    "podman": check_nothing_more,
    "python3": check_nothing_more,
    "read": check_nothing_more,
    "python": check_python,
}


def test_samples_are_recorded_and_trained_with_the_commands_shown(tmp_path: Path) -> None:
    """The blocks ``console samples``, in order, in a folder like a clone with a run folder."""
    try:
        python = predictor.environment_python()
    except LabError as error:
        pytest.skip(str(error))
    (tmp_path / "lab").symlink_to(ROOT / "lab")
    (tmp_path / ".venvs").symlink_to(python.parents[2])
    (tmp_path / "runs" / "hall-1").mkdir(parents=True)
    run_folder(tmp_path / "runs" / "hall-1")
    record, train = BY_KIND["console samples"]
    for block in (record, train):
        for command in block.commands:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        if block is record:
            assert len(recorded.read(tmp_path / "samples.csv")) == 1
            write_samples(tmp_path / "samples.csv", "r650", 120, 80)
    assert (tmp_path / "models" / "r650" / "model.joblib").exists()


# Text, JSON and CSV


@pytest.mark.parametrize("block", of_kind("text message"))
def test_messages_are_those_of_the_code(block: Block) -> None:
    message = " ".join(block.text.split())
    assert any(matches(message, text) for text in code_texts()), message


def test_a_message_that_nobody_says_is_noticed() -> None:
    assert not any(matches("the moon … is full", text) for text in code_texts())
    assert not any(matches("…", text) for text in code_texts())


@pytest.mark.parametrize("block", of_kind("text diagram"))
def test_modules_in_diagrams_exist(block: Block) -> None:
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", block.text))
    assert named and named <= modules


@pytest.mark.parametrize("block", of_kind("text tree"))
def test_paths_in_trees_exist(block: Block) -> None:
    assert not [line for line in block.text.split() if not (ROOT / line).exists()]


@pytest.mark.parametrize("block", of_kind("text prices"))
def test_a_series_of_prices_is_read(block: Block) -> None:
    assert len(read_series(block.text).prices) == 3


@pytest.mark.parametrize("block", of_kind("text trace"))
def test_a_trace_is_read(block: Block) -> None:
    assert len(read_trace(block.text.splitlines(), str(block)).pods) == 2


@pytest.mark.parametrize("block", of_kind("text source"))
def test_a_source_has_the_fields_that_the_samples_have(block: Block) -> None:
    shown = [line.partition(":")[0] for line in block.text.splitlines()]
    folder = ROOT / "tests" / "conformance" / "redfish" / "samples"
    for path in folder.glob("*/SOURCE.txt"):
        assert [line.partition(":")[0] for line in path.read_text().splitlines()] == shown


@pytest.mark.parametrize("block", of_kind("yaml expected"))
def test_expectations_are_among_those_of_the_samples(block: Block) -> None:
    path = ROOT / "tests" / "conformance" / "redfish" / "expected.yaml"
    expected = yaml.safe_load(path.read_text())
    assert yaml.safe_load(block.text).items() <= expected.items()


@pytest.mark.parametrize("block", of_kind("json request"))
def test_the_request_to_a_model_is_the_one_that_the_library_sends(block: Block) -> None:
    shown = json.loads(block.text)
    rows = [json.dumps(row) for row in shown["inputs"][0]["data"]]
    assert json.loads(wire.request_body(rows)) == shown


@pytest.mark.parametrize("block", of_kind("csv samples.csv"))
def test_samples_shown_are_such_as_the_trainer_reads(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    path.write_text(block.text)
    assert recorded.read(path)
