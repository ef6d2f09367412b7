# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that refuse an inventory before any change. They need no lab."""

from __future__ import annotations

import http.server
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.playbook import PlaybookRun, run_playbook

Json = dict[str, t.Any]

CHECK = "Check the variables of all roles"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[list[str]]:
    """Requests to the API server whose kubeconfig is in the folder."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            seen.append(str(self.rfile.readline(65536)))
            self.close_connection = True

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    yield seen
    server.shutdown()
    server.server_close()


def play(
    name: str, folder: Path, inventory: Json, *arguments: str, **options: t.Any
) -> PlaybookRun:
    (folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
    return run_playbook(
        f"wattwise.kube.{name}", folder, "-i", "inventory.yml", *arguments, **options
    )


def test_wrong_variables_are_all_told_before_anything_is_touched(
    asked: list[str], tmp_path: Path
) -> None:
    wrong = {
        "wattwise_kubeconfig": str(tmp_path / "kubeconfig"),
        "wattwise_run_dir": str(tmp_path / "runs"),
        "observe_timeout": "soon",
        "placement_pod_usage_assumption": 80,
        "placement_time_limit": "{{ not_there }}",
        "node_configs_namespace": "Wao",
        "node_configs_secrets": "hunter2",
        "observe_concurency": 3,
    }
    inventory: Json = {"clusters": {"hosts": {"hall-1": wrong}}}
    run = play("site", tmp_path, inventory, "-vvvv")
    assert run.returncode == 2
    said = run.output
    assert "Nothing was changed: invalid variables of hall-1: " in said
    assert "observe_timeout is 'soon', but must be a number; " in said
    assert "placement_pod_usage_assumption is 80, but must be from 0 to 1" in said
    assert "placement_time_limit cannot be rendered: 'not_there' is undefined" in said
    assert "node_configs_namespace is 'Wao', but must be the name of a namespace" in said
    assert "node_configs_secrets[0] is a text, but must be a dictionary" in said
    assert "observe_concurrency may be meant" in " ".join(said.split())
    assert "hunter2" not in said
    assert asked == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("arguments", [("--tags", "crds"), ("--check",)])
def test_tags_and_check_mode_change_nothing_of_that(
    arguments: tuple[str, ...], asked: list[str], tmp_path: Path
) -> None:
    wrong = {"wattwise_kubeconfig": str(tmp_path / "kubeconfig"), "observe_timeout": "soon"}
    run = play("site", tmp_path, {"clusters": {"hosts": {"hall-1": wrong}}}, *arguments)
    assert run.returncode == 2
    assert "observe_timeout is 'soon', but must be a number" in run.output
    assert asked == []


@pytest.mark.parametrize(
    ("arguments", "is_needed"),
    [
        ((), True),
        (("--tags", "rmd_daemons"), True),
        (("--tags", "rmd"), True),
        (("--tags", "rmd_workloads"), False),
        (("--skip-tags", "rmd_daemons"), False),
    ],
)
def test_rmd_needs_its_image_only_where_its_tasks_run(
    arguments: tuple[str, ...], is_needed: bool, tmp_path: Path
) -> None:
    wrong = {"wattwise_run_dir": str(tmp_path / "runs"), "rmd_prune_max": 7}
    run = play("rmd", tmp_path, {"clusters": {"hosts": {"hall-1": wrong}}}, *arguments)
    assert run.returncode == 2
    assert "rmd_prune_max is 7, but must be from 0 to 1" in run.output
    assert ("rmd_image is missing; the rmd role needs it" in run.output) is is_needed


def test_a_kubeconfig_that_is_not_there_is_named_with_its_variable(tmp_path: Path) -> None:
    away = {"wattwise_kubeconfig": str(tmp_path / "away.yml")}
    inventory: Json = {
        "clusters": {"hosts": {"hall-1": away}},
        "bmc_gateways": {"hosts": {"jump-a": {}}},
    }
    run = play("observe", tmp_path, inventory)
    assert run.returncode == 2
    assert f"wattwise_kubeconfig is '{tmp_path}/away.yml', but there is no such file" in run.output


def test_gateways_need_a_kubeconfig_whose_content_they_get(tmp_path: Path) -> None:
    inventory: Json = {"clusters": {"hosts": {"hall-1": {}}}, "bmc_gateways": {"hosts": {"a": {}}}}
    run = play("observe", tmp_path, inventory)
    assert run.returncode == 2
    assert "wattwise_kubeconfig is missing; hosts of bmc_gateways get" in run.output


# A unit test shows that all others select and check their hosts as the `site` playbook does.
@pytest.mark.parametrize("playbook", ["site", "devices", "rmd_node_agent"])
def test_an_inventory_without_a_cluster_fails_and_says_what_to_write(
    playbook: str, tmp_path: Path
) -> None:
    group = "nodes" if playbook == "rmd_node_agent" else "clusters"
    run = play(playbook, tmp_path, {"machines": {"hosts": {"a": {}, "b": {}}}})
    assert run.returncode == 2
    assert f"The inventory has no host in group {group}" in run.output
    assert f"{{{group}: {{hosts: {{" in run.output
    # One host prints it, not each of thousands.
    assert run.output.count("fatal: ") == 1


@pytest.mark.parametrize(
    "arguments",
    [("-i", "jump-a,"), ("-i", "inventory.yml", "--limit", "jump-a", "--tags", "report")],
)
def test_a_limit_that_leaves_no_cluster_fails_as_well(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    inventory: Json = {
        "clusters": {"hosts": {"hall-1": {}}},
        "bmc_gateways": {"hosts": {"jump-a": {}}},
    }
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump(inventory))
    run = run_playbook("wattwise.kube.site", tmp_path, *arguments)
    assert run.returncode == 2
    assert "The inventory has no host in group clusters" in run.output


def test_no_inventory_at_all_fails_as_well(tmp_path: Path) -> None:
    run = run_playbook("wattwise.kube.place", tmp_path)
    assert run.returncode == 2
    assert "The inventory has no host in group clusters" in run.output


def test_devices_runs_on_clusters_unless_files_are_given(tmp_path: Path) -> None:
    inventory: Json = {"clusters": {"hosts": {"hall-1": {}}}}
    listed = play("devices", tmp_path, inventory, "--list-hosts")
    assert "      hall-1\n" in listed.output
    from_files = play("devices", tmp_path, inventory, "--list-hosts", "-e", "{devices_src: [a]}")
    assert "      localhost\n" in from_files.output


TAGS = ("place", "rmd", "observe", "report", "devices")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tasks with the tag named after their playbook, by playbook."""
    others = [f"wattwise.kube.{name}" for name in TAGS[1:]]
    folder = tmp_path_factory.mktemp("everything")
    (folder / "inventory.yml").write_text("clusters: {hosts: {hall-1: {}}}")
    arguments = ("-i", "inventory.yml", "--list-tasks")
    run = run_playbook(f"wattwise.kube.{TAGS[0]}", folder, *others, *arguments)
    assert run.returncode == 0, run.output
    return lists_of_tasks(run.output)


@pytest.mark.parametrize("tag", TAGS)
def test_the_tag_of_a_playbooks_name_is_all_of_it(
    everything: dict[str, str], tag: str, tmp_path: Path
) -> None:
    inventory: Json = {"clusters": {"hosts": {"hall-1": {}}}}
    tagged = play(tag, tmp_path, inventory, "--list-tasks", "--tags", tag)
    assert tagged.returncode == 0
    assert lists_of_tasks(tagged.output) == {tag: everything[tag]}
    assert CHECK in everything[tag]


def lists_of_tasks(output: str) -> dict[str, str]:
    """Ansible's list of tasks for each playbook, by its name."""
    parts = [part.partition("\n") for part in output.split("\nplaybook: ")[1:]]
    return {Path(path).stem: text.strip() for path, _newline, text in parts}
