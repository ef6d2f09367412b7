# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point host of the ``kepler`` role: headers of the kernel, for versions that need them."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from support.kepler_trees import KERNEL, TREES, grow
from support.playbook import PlaybookRun, run_playbook

# Replaces the package manager: records the names, and installs headers below the root.
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


# Replaces the network and the firmware: programs run on the local machine, its boots are counted,
# and after a boot it refuses one connection.
CONNECTION_PLUGIN = """\
DOCUMENTATION = "name: machine\\nextends_documentation_fragment: [connection_pipelining]\\n"
from pathlib import Path
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local

FOLDER = Path(%r)


class Connection(Local):
    transport = "machine"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        is_down = FOLDER / "is_down"
        if is_down.exists():
            is_down.unlink()
            raise AnsibleConnectionFailure("connection refused")
        own = str(FOLDER / "boot_id")
        cmd = cmd.replace("/proc/sys/kernel/random/boot_id", own)
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
"""
# Module reboot looks for shutdown beside it.
FIND_MODULE = """\
#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule({"paths": {}, "patterns": {}, "file_type": {}})
module.exit_json(files=[{"path": %r}])
"""
ARGUMENT = "systemd.unified_cgroup_hierarchy=1"


class Host:
    """A node without BTF and headers, on which no package is really installed."""

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

        ``path`` is a folder of commands with precedence over the machine's; with it, a failed entry
        does not stop the others.
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
    wrong = {**old, "kepler_host_headers_package": "wrong"}
    planned = host.prepare(old, check=True)
    # The first entry fails and does not stop the others.
    run = host.prepare(wrong, new, old, old, path=host.folder)
    assert (planned.returncode, run.returncode) == (0, 0), run.output
    task = "Install the headers of the running kernel"
    assert [result["changed"] for result in planned.results(task)] == [True]
    results = run.results(task)
    assert [result["changed"] for result in results] == [True, False, True, False]
    assert KERNEL in results[2]["installed"]
    assert "are not those of the running kernel" in run.failures()["localhost"]


# The role uses grubby for Red Hat's distributions, by a fact of the machine that runs the tests.
@pytest.mark.skipif(
    not Path("/etc/debian_version").exists(), reason="the role calls update-grub on Debian alone"
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
    program.write_text(
        f"#!/bin/sh\n[ -d {tmp_path}/tried ] || {{ mkdir {tmp_path}/tried; exit 1; }}\n"
        f"echo linux /vmlinuz {ARGUMENT} > {configuration}\n"
    )
    program.chmod(0o755)
    run = host.prepare(given, given, given, path=commands)
    assert run.returncode == 0, run.output
    assert not any(result.get("rebooted") for result in run.results("Reboot the node"))
    renewed = run.results("Renew the configuration of grub")
    assert [bool(result.get("failed")) for result in renewed] == [True, False, False]
    assert [result["changed"] for result in renewed] == [True, True, False]


def can_boot(host: Host, *, into_v2: bool) -> dict[str, t.Any]:
    """Give the host a boot loader and a connection that survives its boot; return the variables."""
    commands, plugins = host.folder / "bin", host.folder / "connection_plugins"
    commands.mkdir()
    plugins.mkdir()
    groups, kernel = host.root / "sys/fs/cgroup", host.root / "proc/cmdline"
    kernel.write_text("BOOT_IMAGE=/vmlinuz\n")
    configuration = host.folder / "grub.cfg"
    configuration.write_text("BOOT_IMAGE=/vmlinuz\n")
    (host.folder / "boot_id").write_text("1\n")
    boot = [
        f"cp {configuration} {kernel}",
        f"echo 1 >> {host.folder}/boot_id",
        f"touch {host.folder}/is_down",
        *(
            [f"rm -r {groups}", f"mkdir {groups}", f"echo cpu > {groups}/cgroup.controllers"]
            * into_v2
        ),
    ]
    programs = {
        "update-grub": [f"echo BOOT_IMAGE=/vmlinuz {ARGUMENT} > {configuration}"],
        "shutdown": ['[ "$1" = -r ]', *boot],
    }
    for name, lines in programs.items():
        (commands / name).write_text("\n".join(["#!/bin/sh -e", *lines, ""]))
        (commands / name).chmod(0o755)
    (plugins / "machine.py").write_text(CONNECTION_PLUGIN % str(host.folder))
    (host.folder / "library/find.py").write_text(FIND_MODULE % str(commands / "shutdown"))
    return {
        "ansible_connection": "machine",
        "kepler_version": "0.7.12",
        "kepler_host_kernel_headers": False,
        "kepler_host_cgroup_v2": True,
        "kepler_host_grub_folder": str(host.folder),
        "kepler_host_grub_configuration": str(configuration),
    }


@pytest.mark.skipif(
    not Path("/etc/debian_version").exists(), reason="the role calls update-grub on Debian alone"
)
@pytest.mark.parametrize("into_v2", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_node_boots_where_that_is_wanted_and_once(host: Host, into_v2: bool) -> None:
    """Ansible's own module reboots; the machine is simulated behind the connection."""
    given = {**can_boot(host, into_v2=into_v2), "kepler_host_reboot": True}
    run = host.prepare(given, given, path=host.folder / "bin")
    assert run.returncode == 0, run.output
    rebooted = [result.get("rebooted") for result in run.results("Reboot the node")]
    assert rebooted == [True, None]
    assert (host.folder / "boot_id").read_text() == "1\n1\n"
    versions = [one.get("cgroup_version") for one in run.results("Read the node again")]
    assert versions == (["v2", None] if into_v2 else ["hybrid"] * 2)
    told = [str(one.get("msg")) for one in run.results("still uses cgroup v1")]
    assert ["until its next boot" in text for text in told] == [not into_v2] * 2


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/etc/debian_version").exists(), reason="the role calls update-grub on Debian alone"
)
def test_a_node_that_does_not_come_back_is_a_failure(host: Host) -> None:
    given = {**can_boot(host, into_v2=True), "kepler_host_reboot": True}
    (host.folder / "bin/shutdown").write_text("#!/bin/sh\n")
    run = host.prepare({**given, "kepler_host_reboot_timeout": 1}, path=host.folder / "bin")
    assert "Timed out waiting for last boot time check (timeout=1)" in str(run.failures())
