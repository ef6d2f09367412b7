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
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node import meters
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.host_files import HostFiles
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.probe import (
    read_facts,
    read_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.processor import (
    x86_microarchitecture,
)
from support.examples import examples
from support.kepler_trees import ARM_CPU, KERNEL, SYSINFO, TREES, Link, Tree, dmi, grow, host, hwmon

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
    ("rails", NEW, True, "hwmon", "hwmon sensors ina3221 VDD_CPU_CV can be read"),
    ("rails", "0.11.3", False, "none", "Kepler 0.11.3 reads no hwmon sensors"),
    ("negative rail", NEW, False, "none", "hwmon1/in1_input (curr1_input: it reads -20) cannot be"),
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


def test_of_each_chip_a_version_meters_by_its_first_type_of_enabled_sensors(
    tmp_path: Path,
) -> None:
    both = hwmon(0, "amd_energy", energy1_input="12", energy1_label="Esocket0", power1_input="3")
    off = hwmon(1, "ina2xx", power1_input="3", power1_enable="0", power2_input="4")
    pair = hwmon(2, "ltc2947", power1_cap="5", in0_input="12000", curr1_input="2000")
    root = grow(host("", both, off, pair), tmp_path)
    assert [(each["path"], each["type"]) for each in read(root)["hwmon_sensors"]] == [
        ("hwmon0/energy1_input", "energy"),
        ("hwmon0/power1_input", "power"),
        ("hwmon1/power2_input", "power"),
        ("hwmon2/in0_input", "voltage_current"),
    ]
    rest = "ina2xx hwmon1/power2_input"
    for version, names in (
        ("0.11.4", f"amd_energy hwmon0/power1_input, {rest}, ltc2947 hwmon2/in0_input"),
        ("latest", f"amd_energy Esocket0, {rest}, ltc2947 hwmon2/in0_input"),
        ("0.9.0", f"amd_energy hwmon0/power1_input, {rest}"),
    ):
        assert read(root, version)["reasons"] == [f"hwmon sensors {names} can be read"], version


def test_energy_alone_is_no_meter_of_a_version_without_it(tmp_path: Path) -> None:
    root = grow(host(ARM_CPU, hwmon(0, "amd_energy", energy1_input="12")), tmp_path)
    found = read(root, "0.11.4")
    assert (found["supported"], found["reasons"][1]) == (
        False,
        "hwmon sensors amd_energy hwmon0/energy1_input do not meter, as Kepler 0.11.4 reads only"
        " sensors of power and pairs of voltage and current",
    )
    assert read(root, "latest")["meter"] == "hwmon"


ALL_ONES = (2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
# Content of a power sensor, and the problem with it.
READINGS: list[tuple[str, str]] = [
    ("231000000", ""),
    ("00231", ""),
    ("0", ""),
    ("100000000000", ""),
    ("100000000001", "more than 100000 W"),
    (str(2**63), "more than 100000 W"),
    *((str(number), "which stands for no reading") for number in ALL_ONES),
    *((str(number * 1000), "which stands for no reading") for number in ALL_ONES[:2]),
    (str(2**64), "no number of 64 bits"),
    ("9" * 4000, "no number of 64 bits"),
    ("-1", "it reads -1"),
    ("-40000000", "it reads -40000000"),
    ("", "the file is empty"),
    (" \n", "the file is empty"),
    ("231.5", "no number of 64 bits"),
    ("1e6", "no number of 64 bits"),
    ("0xffffffff", "no number of 64 bits"),
    ("N/A", "no number of 64 bits"),
    ("231 W", "no number of 64 bits"),
    ("231\n232", "no number of 64 bits"),
    ("٢٣", "no number of 64 bits"),
]


@pytest.mark.parametrize(("content", "problem"), READINGS)
@pytest.mark.parametrize("file", ["power1_average", "power1_input"])
def test_readings_that_no_machine_draws_are_problems(
    tmp_path: Path, file: str, content: str, problem: str
) -> None:
    root = grow(host(ARM_CPU, hwmon(0, "xgene", power1_label="CPU")), tmp_path)
    (root / "sys/class/hwmon/hwmon0" / file).write_text(content, encoding="utf-8")
    [sensor] = read(root)["hwmon_sensors"]
    assert sensor["readable"] is not bool(problem)
    assert problem in sensor["problem"] and bool(problem) == bool(sensor["problem"])
    assert read(root)["meter"] == ("none" if problem else "hwmon")


@pytest.mark.parametrize(
    ("chip", "file", "content", "problem"),
    [
        ("power_meter", "power1_average", "0", "it reads 0 W for the whole machine"),
        ("amd_energy", "energy1_input", "0", "it has counted no energy"),
        ("amd_energy", "energy1_input", str(2**32 - 1), "which stands for no reading"),
        ("amd_energy", "energy1_input", str(2**63), "which stands for no reading"),
        ("amd_energy", "energy1_input", "81234567890123", ""),
    ],
)
def test_counters_and_meters_of_the_machine_have_bounds_of_their_own(
    tmp_path: Path, chip: str, file: str, content: str, problem: str
) -> None:
    root = grow(host(ARM_CPU, hwmon(0, chip, **{file: content})), tmp_path)
    [sensor] = read(root)["hwmon_sensors"]
    assert problem in sensor["problem"] and bool(problem) == bool(sensor["problem"])


def test_a_sensor_whose_bus_fails_is_a_problem(tmp_path: Path) -> None:
    # Address 0 of a task's memory fails as a broken sensor does.
    assert meters.count(HostFiles(Path("/proc/self")), "mem") == (None, "input/output error")
    root = grow(host(ARM_CPU, hwmon(0, "xgene", power1_label="CPU")), tmp_path)
    (root / "sys/class/hwmon/hwmon0/power1_input").mkdir()
    [sensor] = read(root)["hwmon_sensors"]
    assert (sensor["readable"], sensor["problem"]) == (False, "no plain file")


RAIL = {"in1_input": "12000", "curr1_input": "5000"}
# Chip, its files, and the voltages that are paired.
PAIRS: list[tuple[str, dict[str, str], list[str]]] = [
    ("unknown", RAIL, ["in1_input"]),
    ("unknown", {"in0_input": "12000", "curr1_input": "5000"}, []),
    ("unknown", {"in1_input": "12000"}, []),
    ("unknown", {"curr1_input": "12000"}, []),
    ("unknown", {**RAIL, "in1_average": "1", "curr1_average": "1"}, ["in1_average"]),
    ("unknown", {**RAIL, "in1_average": "1"}, ["in1_input"]),
    ("unknown", {"in1_average": "1", "curr1_average": "1"}, []),
    ("unknown", {**RAIL, "in1_enable": "0"}, []),
    ("unknown", {**RAIL, "curr1_enable": "0"}, []),
    ("unknown", {**RAIL, "in1_enable": "1", "curr1_enable": "1"}, ["in1_input"]),
    ("unknown", {**RAIL, "power1_cap": "9"}, ["in1_input"]),
    # Labels precede numbers, in the form of Kepler's zones.
    (
        "ina3221",
        {**RAIL, "in2_input": "5000", "in2_label": "VDD-In ", "curr1_label": "vdd in"},
        ["in2_input"],
    ),
    ("unknown", {**RAIL, "in1_label": "a", "curr1_label": "b"}, ["in1_input"]),
    # Known chips: shunts and auxiliary inputs are no rails.
    ("ina3221", {**RAIL, "in4_input": "1", "curr4_input": "1"}, ["in1_input"]),
    ("ina226", {**RAIL, "in0_input": "1", "curr0_input": "1"}, ["in1_input"]),
    ("INA226", {**RAIL, "in0_input": "1", "curr0_input": "1"}, ["in1_input"]),
    ("ltc2947", {"in0_input": "48000", "curr1_input": "100"}, ["in0_input"]),
    (
        "ltc2992",
        {
            **{f"in{number}_input": "1" for number in range(6)},
            **{f"curr{number}_input": "1" for number in (1, 2)},
        },
        ["in0_input", "in2_input"],
    ),
    ("max20730", {**RAIL, "in2_input": "900"}, ["in2_input"]),
    (
        "max34440",
        {"in6_input": "1", "curr6_input": "1", "in7_input": "1", "curr7_input": "1"},
        ["in6_input"],
    ),
    ("mp2975", {**RAIL, "in2_input": "1", "curr2_input": "1"}, ["in1_input"]),
    ("ltc2945", {"in2_input": "1", "curr2_input": "1"}, ["in2_input"]),
]


@pytest.mark.parametrize(("chip", "files", "paired"), PAIRS)
def test_voltages_and_currents_are_paired_as_in_kepler(
    tmp_path: Path, chip: str, files: dict[str, str], paired: list[str]
) -> None:
    root = grow(host(ARM_CPU, hwmon(0, chip, **files)), tmp_path)
    found = read(root)
    assert [each["path"] for each in found["hwmon_sensors"]] == [
        f"hwmon0/{name}" for name in paired
    ]
    assert found["meter"] == ("hwmon" if paired else "none")


@pytest.mark.parametrize(
    ("voltage", "current", "problem"),
    [
        ("12000", "0", ""),
        ("12000", "-5", "curr1_input: it reads -5"),
        ("12000", str(2**32 - 1), "curr1_input: it reads 4294967295, which stands for no reading"),
        (str(2**31 - 1), "0", "in1_input: it reads 2147483647, which stands for no reading"),
        ("12000", "9000000", "it reads 108000 W, more than 100000 W"),
        # Kepler's product has 64 bits, and would be 0.
        (str(2**62), "4", "more than 100000 W"),
        ("x", "y", "in1_input: the file holds no number of 64 bits"),
    ],
)
def test_pairs_need_a_plausible_product(
    tmp_path: Path, voltage: str, current: str, problem: str
) -> None:
    rail = hwmon(0, "ina226", in1_input=voltage, curr1_input=current)
    [sensor] = read(grow(host(ARM_CPU, rail), tmp_path))["hwmon_sensors"]
    assert problem in sensor["problem"] and bool(problem) == bool(sensor["problem"])


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
