# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point host of role kepler: headers of the kernel, for versions that need them."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from support.kepler_trees import KERNEL, TREES, grow
from support.playbook import PlaybookRun, run_playbook

# Stands for the package manager: notes the names, and installs headers below the root.
PACKAGE_MODULE = """\
#!/usr/bin/python
from pathlib import Path
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(
    {"name": {}, "state": {}, "root": {"default": %r}}, supports_check_mode=True
)
folder = Path(module.params["root"]) / "usr/src/kernels" / %r
changed = not folder.exists()
if changed and not module.check_mode and "wrong" not in module.params["name"]:
    folder.mkdir(parents=True)
module.exit_json(changed=changed, installed=module.params["name"])
"""


class Host:
    """A node without BTF and headers, on which nothing is really installed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, grow(TREES["old"], folder / "root")
        library = folder / "library"
        library.mkdir()
        content = PACKAGE_MODULE % (str(self.root), KERNEL)
        (library / "noted_package.py").write_text(content)

    def prepare(
        self, *entries: dict[str, t.Any], check: bool = False, path: Path | None = None
    ) -> PlaybookRun:
        """One play that runs the entry point with the variables of each entry.

        ``path`` is a folder of commands that come before the machine's; with it a failed entry
        stops no other.
        """
        given = {
            "kepler_host_root": str(self.root),
            "ansible_package_use": "ansible.legacy.noted_package",
            "ansible_become": False,
        }
        tasks = [
            {
                "name": "Prepare the node",
                "ansible.builtin.include_role": {
                    "name": "wattwise.kube.kepler",
                    "tasks_from": "host",
                },
                "vars": {**given, **entry},
            }
            for entry in entries
        ]
        play: dict[str, t.Any] = {
            "name": "p",
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": tasks,
        }
        if path is not None:
            play["tasks"] = [
                {"block": [task], "rescue": [{"ansible.builtin.meta": "noop"}]} for task in tasks
            ]
            play["environment"] = {"PATH": f"{path}:{os.environ['PATH']}"}
        arguments = ["--check"] if check else []
        return run_playbook([play], self.folder, *arguments, as_json=True)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_headers_are_installed_where_ebpf_needs_them_and_once(host: Host) -> None:
    new, old = {"kepler_version": "0.11.4"}, {"kepler_version": "0.7.12"}
    planned, run = host.prepare(old, check=True), host.prepare(new, old, old)
    assert (planned.returncode, run.returncode) == (0, 0), run.output
    task = "Install the headers of the running kernel"
    assert [result["changed"] for result in planned.results(task)] == [True]
    results = run.results(task)
    assert [result["changed"] for result in results] == [False, True, False]
    assert KERNEL in results[1]["installed"]


def test_headers_of_another_kernel_are_refused(host: Host) -> None:
    run = host.prepare({"kepler_version": "0.7.12", "kepler_host_headers_package": "wrong"})
    assert run.returncode == 2
    assert "are not those of the running kernel" in run.failures()["localhost"]


@pytest.mark.skipif(
    not Path("/etc/debian_version").exists(), reason="the boot loader is asked for by distribution"
)
def test_grub_is_renewed_until_it_has_the_argument(host: Host, tmp_path: Path) -> None:
    commands, configuration = tmp_path / "bin", tmp_path / "grub.cfg"
    commands.mkdir()
    configuration.write_text("linux /vmlinuz\n")
    program = commands / "update-grub"
    given = {
        "kepler_version": "0.7.12",
        "kepler_host_kernel_headers": False,
        "kepler_host_cgroup_v2": True,
        "kepler_host_grub_folder": str(tmp_path),
        "kepler_host_grub_configuration": str(configuration),
    }
    argument = "systemd.unified_cgroup_hierarchy=1"
    program.write_text(
        f"#!/bin/sh\n[ -d {tmp_path}/tried ] || {{ mkdir {tmp_path}/tried; exit 1; }}\n"
        f"echo linux /vmlinuz {argument} > {configuration}\n"
    )
    program.chmod(0o755)
    run = host.prepare(given, given, given, path=commands)
    assert run.returncode == 0, run.output
    renewed = run.results("Renew the configuration of grub")
    assert [bool(result.get("failed")) for result in renewed] == [True, False, False]
    assert [result["changed"] for result in renewed] == [True, True, False]
