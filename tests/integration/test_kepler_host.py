# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point host of role kepler: headers of the kernel, for versions that need them."""

from __future__ import annotations

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

    def prepare(self, *entries: dict[str, t.Any], check: bool = False) -> PlaybookRun:
        """One play that runs the entry point with the variables of each entry."""
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
        play = {"name": "p", "hosts": "localhost", "gather_facts": False, "tasks": tasks}
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
