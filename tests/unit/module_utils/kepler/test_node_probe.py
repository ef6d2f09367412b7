# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kepler_node_info: facts and verdicts on the file systems of many kinds of nodes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base import strict_json
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.facts import NodeFacts
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.host_files import HostFiles
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.probe import (
    read_facts,
    read_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.processor import (
    x86_microarchitecture,
)
from support.examples import examples
from support.kepler_trees import KERNEL, SYSINFO, TREES, Link, Tree, dmi, grow, host, hwmon

Json = dict[str, t.Any]
NEW, OLD = "0.11.4", "0.7.12"


def read(root: Path, version: str = NEW) -> Json:
    return read_node({"root": str(root), "kepler_version": version})


FACTS: dict[str, Json] = {
    "intel": {
        "architecture": "amd64",
        "kernel": KERNEL,
        "cpu_model": "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
        "microarchitecture": "icelake",
        "virtualization": "none",
        "cgroup_version": "v2",
        "cgroup_driver": "systemd",
        "kernel_headers": False,
        "btf": True,
        "problems": [],
    },
    "amd": {
        "architecture": "amd64",
        "cpu_model": "AMD EPYC 9354 32-Core Processor",
        "microarchitecture": "zen4",
        "virtualization": "none",
        "cgroup_version": "v1",
        "cgroup_driver": "cgroupfs",
        "hwmon_sensors": [],
        "gpus": [],
    },
    "ampere": {
        "architecture": "arm64",
        "cpu_model": "Arm Neoverse-N1",
        "microarchitecture": "neoverse-n1",
        "virtualization": "none",
        "rapl_zones": [],
    },
    "s390x": {
        "architecture": "s390x",
        "cpu_model": "IBM Z machine type 3931",
        "microarchitecture": "z16",
        "virtualization": "none",
    },
    "virtual": {"virtualization": "qemu", "rapl_zones": [], "hwmon_sensors": []},
    "old": {"cgroup_version": "hybrid", "btf": False},
    "container": {
        "virtualization": "none",
        "cgroup_version": "v2",
        "cgroup_driver": "unknown",
        "rapl_zones": None,
        "hwmon_sensors": None,
        "kernel_headers": None,
        "btf": None,
        "gpus": None,
        "problems": [
            "/sys/class/powercap cannot be read: no such file or directory",
            "/sys/class/hwmon cannot be read: no such file or directory",
        ],
    },
    "metal of a cloud": {"virtualization": "none"},
}


@pytest.mark.parametrize("tree", FACTS)
def test_facts_of_each_tree(tmp_path: Path, tree: str) -> None:
    found = read(grow(TREES[tree], tmp_path))
    assert {name: found[name] for name in FACTS[tree]} == FACTS[tree]


VERDICTS: list[tuple[str, str, bool, str, str]] = [
    ("intel", NEW, True, "rapl", "RAPL zones package-0, dram, package-1, dram can be read"),
    ("intel", OLD, True, "rapl", "RAPL zones"),
    ("amd", NEW, True, "rapl", "RAPL zones package-0, core can be read"),
    ("ampere", NEW, True, "hwmon", "hwmon sensors apm_xgene CPU power, apm_xgene IO power can"),
    ("ampere", "0.11.3", False, "none", "Kepler 0.11.3 reads no hwmon sensors; 0.11.4 and later"),
    ("ampere", "latest", True, "hwmon", "hwmon sensors"),
    ("s390x", NEW, False, "none", "s390x processors have no RAPL zones"),
    ("s390x", OLD, True, "model", "Kepler 0.7.12 estimates the power of the node by a model"),
    ("virtual", NEW, False, "none", "the node is a virtual machine (qemu) without RAPL zones"),
    ("virtual", OLD, True, "model", "estimates"),
    ("old", NEW, True, "rapl", "RAPL zones package-0 can be read"),
    ("old", OLD, False, "none", f"kernel {KERNEL} has neither BTF nor headers"),
    ("container", NEW, False, "none", "/sys/class/powercap is not visible; mount the host's /sys"),
    ("container", OLD, False, "none", "/sys/kernel/btf is not visible; mount the host's /sys"),
    ("masked", NEW, False, "none", "intel-rapl:0 (no such file or directory) cannot be read"),
    ("gpu sensors", NEW, False, "none", "only GPUs have hwmon power sensors"),
    ("metal of a cloud", NEW, True, "rapl", "RAPL zones package-0 can be read"),
]


@pytest.mark.parametrize(("tree", "version", "supported", "meter", "reason"), VERDICTS)
def test_verdict_on_each_tree(
    tmp_path: Path, tree: str, version: str, supported: bool, meter: str, reason: str
) -> None:
    found = read(grow(TREES[tree], tmp_path), version)
    assert (found["supported"], found["meter"]) == (supported, meter)
    assert reason in "; ".join(found["reasons"])


@contextlib.contextmanager
def without_root(folder: Path) -> Iterator[None]:
    """As a non-root user, whoever runs the test."""
    if os.geteuid() != 0:
        yield
        return
    folder.chmod(0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_energy_that_only_root_may_read_is_no_meter_of_another_user() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = grow(TREES["amd"], Path(name))
        for file in root.rglob("energy_uj"):
            file.chmod(0o400 if os.geteuid() == 0 else 0)
        with without_root(root):
            found = read(root)
    assert (found["supported"], found["meter"]) == (False, "none")
    assert found["reasons"][0] == (
        "RAPL zones intel-rapl:0 (permission denied), intel-rapl:0:0 (permission denied)"
        " cannot be read; run the probe as root"
    )
    assert [zone["name"] for zone in found["rapl_zones"]] == ["package-0", "core"]


def test_zones_and_sensors_are_told_with_ranges_and_scopes(tmp_path: Path) -> None:
    found = read(grow(TREES["intel"], tmp_path))
    assert found["rapl_zones"][1] == {
        "path": "intel-rapl:0:0",
        "name": "dram",
        "max_energy_range_uj": 262143328850,
        "readable": True,
        "problem": "",
    }
    assert found["hwmon_sensors"] == [
        {
            "path": "hwmon0/power1_average",
            "chip": "power_meter",
            "label": "",
            "type": "power",
            "scope": "machine",
            "readable": True,
            "problem": "",
        }
    ]


def test_display_controllers_of_bmcs_are_no_gpus(tmp_path: Path) -> None:
    [gpu] = read(grow(TREES["intel"], tmp_path))["gpus"]
    assert (gpu["address"], gpu["vendor"], gpu["type"]) == ("0000:3b:00.0", "nvidia", "3d")


def test_a_chip_with_energy_counters_has_no_other_sensors_and_disabled_ones_are_none(
    tmp_path: Path,
) -> None:
    both = hwmon(0, "amd_energy", energy1_input="12", energy1_label="Esocket0", power1_input="3")
    off = hwmon(1, "ina2xx", power1_input="3", power1_enable="0", power2_input="4")
    found = read(grow(host("", both, off), tmp_path))["hwmon_sensors"]
    paths = [sensor["path"] for sensor in found]
    assert paths == ["hwmon0/energy1_input", "hwmon1/power2_input"]


HYPERVISORS: list[tuple[str, Tree, str]] = [
    ("virtual", dmi("VMware, Inc.", "VMware7,1"), "vmware"),
    ("virtual", dmi("Microsoft Corporation", "Virtual Machine"), "microsoft"),
    ("virtual", dmi("Red Hat", "KVM"), "kvm"),
    ("virtual", dmi("Amazon EC2", "m5.xlarge"), "amazon"),
    ("virtual", dmi("Google", "Google Compute Engine"), "google"),
    ("virtual", dmi("Dell Inc.", "PowerEdge R750"), "vm-other"),
    ("virtual", {"sys/hypervisor/type": "xen\n"}, "xen"),
    ("ampere", dmi("QEMU", "QEMU Virtual Machine"), "qemu"),
    ("ampere", {"proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, "kvm"),
    ("ampere", dmi("Amazon EC2", "c6g.metal"), "none"),
    ("s390x", {"proc/sysinfo": f"{SYSINFO}VM00 Control Program: z/VM    7.2.0\n"}, "zvm"),
    ("s390x", {"proc/sysinfo": f"{SYSINFO}VM00 Control Program: KVM/Linux\n"}, "kvm"),
    ("intel", dmi("Amazon EC2", "i3.metal"), "none"),
]


@pytest.mark.parametrize(("tree", "change", "name"), HYPERVISORS)
def test_hypervisors_have_the_names_of_systemd(
    tmp_path: Path, tree: str, change: Tree, name: str
) -> None:
    assert read(grow({**TREES[tree], **change}, tmp_path))["virtualization"] == name


def test_headers_are_found_by_the_link_of_the_modules_within_root(tmp_path: Path) -> None:
    tree = {
        **TREES["old"],
        f"usr/src/kernels/{KERNEL}/Makefile": "\n",
        f"lib/modules/{KERNEL}/build": Link(f"/usr/src/kernels/{KERNEL}"),
    }
    found = read(grow(tree, tmp_path), OLD)
    assert (found["kernel_headers"], found["supported"], found["meter"]) == (True, True, "rapl")


def test_links_never_lead_out_of_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("outside\n")
    root = tmp_path / "root"
    links = {
        "absolute": str(outside),
        "upwards": "../../../../../outside",
        "loop": "loop",
        "folder": str(tmp_path),
    }
    grow({f"a/{name}": Link(target) for name, target in links.items()}, root)
    files = HostFiles(root)
    for path in ("a/absolute", "a/upwards", "a/loop", "a/folder/outside", "../outside"):
        assert not files.is_file(path)
        with pytest.raises(OSError):
            files.text(path)
    grow({"outside": "inside\n"}, root)
    assert files.line("a/upwards") == "inside"


def test_devices_pipes_and_huge_files_do_no_harm(tmp_path: Path) -> None:
    root = grow(TREES["amd"], tmp_path)
    zone = root / "sys/devices/virtual/powercap/intel-rapl/intel-rapl:0"
    (zone / "energy_uj").unlink()
    os.mkfifo(zone / "energy_uj")
    with (root / "proc/cpuinfo").open("ab") as file:
        file.truncate(2**40)
    found = read(root)
    assert found["microarchitecture"] == "zen4"
    assert found["rapl_zones"][0]["problem"] == "no plain file"
    assert found["supported"] is False


def test_a_root_that_is_none_and_a_version_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="root: there is no folder"):
        read(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="'new' is not a version of Kepler"):
        read(tmp_path, "new")


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        (("GenuineIntel", 6, 0x55, 4), "skylake"),
        (("GenuineIntel", 6, 0x55, 7), "cascadelake"),
        (("GenuineIntel", 6, 0x55, 11), "cooperlake"),
        (("GenuineIntel", 6, 0xCF, 2), "emeraldrapids"),
        (("GenuineIntel", 15, 6, 4), "unknown"),
        (("AuthenticAMD", 0x17, 0x01, 2), "zen"),
        (("AuthenticAMD", 0x17, 0x31, 0), "zen2"),
        (("AuthenticAMD", 0x19, 0x01, 1), "zen3"),
        (("AuthenticAMD", 0x1A, 0x02, 1), "zen5"),
        (("HygonGenuine", 0x18, 0x00, 2), "dhyana"),
    ],
)
def test_microarchitectures_by_family_model_and_stepping(
    numbers: tuple[str, int, int, int], name: str
) -> None:
    assert x86_microarchitecture(*numbers) == name


def test_the_probe_needs_the_standard_library_alone() -> None:
    program = (
        f"import sys; before = set(sys.modules); import {read_node.__module__};"
        " print(*{name.split('.')[0] for name in sys.modules.keys() - before})"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - sys.stdlib_module_names == {"ansible_collections"}


# Every file that the probe reads on one of the trees.
READ = sorted({path for tree in TREES.values() for path, to in tree.items() if isinstance(to, str)})


@examples(40)
@given(
    tree=st.sampled_from(sorted(TREES)),
    contents=st.dictionaries(
        st.sampled_from(READ),
        st.one_of(
            st.binary(max_size=200),
            st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
            st.sampled_from([b"\0" * 9, b"\n", b"9" * 5000, b"-1", b"\xff\xfe", b"a\nb: c\n"]),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_no_bytes_in_any_file_raise_or_break_the_form(
    tree: str, contents: dict[str, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = grow(TREES[tree], Path(name))
        for path, content in contents.items():
            file = root / path
            if path.endswith("/.") or file.is_dir():
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        facts = read_facts(root)
        assert read(root, OLD)["reasons"]
        assert read(root)["reasons"]
    as_json = strict_json.format_compact(facts.as_dict())
    assert NodeFacts.from_dict(strict_json.parse(as_json)) == facts
    assert as_json.isprintable()
