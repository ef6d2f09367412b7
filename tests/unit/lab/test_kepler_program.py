# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kepler, if the program is on PATH: over the lab's files, with the role's configuration."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import stat
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment import configuration
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.probe import read_node
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import kepler as reader
from lab import kepler_program
from lab.kepler_program import Host
from lab.process import free_port, wait_until
from lab.serving import answers
from support.kepler_systems import system
from support.kepler_trees import TREES, grow
from support.promtool import samples
from support.real_kepler import WATTS, host, program

__all__ = ["host", "program"]

# The newest release's configuration; a Kepler that does not know a key warns.
VERSION = "0.11.4"


def test_the_files_of_a_machine_are_those_that_kepler_reads(tmp_path: Path) -> None:
    host = Host(tmp_path, cores=10)
    host.create()
    host.feed(WATTS, 4.0, 2.0)
    host.feed(WATTS, 4.0, 6000.0)
    powercap = host.sys / "class" / "powercap"
    energies = {
        (folder / "name").read_text(): int((folder / "energy_uj").read_text())
        for folder in powercap.iterdir()
    }
    # The counter of the package wrapped around.
    assert energies == {"package-0\n": 300_100_000_000 % 262_143_328_850, "dram\n": 48_016_000_000}
    fields = (host.proc / "stat").read_text().splitlines()[0].split()
    assert fields[:5] == ["cpu", "2400800", "0", "0", "3601200"] and len(fields) == 11
    [process] = [path for path in host.proc.iterdir() if path.name.isdecimal()]
    of_process = (process / "stat").read_text().split()
    assert (len(of_process), of_process[13]) == (52, "2400800")


def test_the_lab_runs_a_kepler_that_is_on_path_and_none_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kepler_program.find() is None
    program = tmp_path / "kepler"
    program.touch()
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert kepler_program.find() == program


@contextlib.contextmanager
def kepler(program: Path, meter: str, root: Path, folder: Path) -> Iterator[Running]:
    """A real Kepler with the role's configuration for this meter, over root's /sys and /proc."""
    wanted = system(version=VERSION, collector={"sample_rate": "1s", "metric_levels": LEVELS})
    content = yaml.safe_load(configuration.files(wanted, wanted.rest, meter)["config.yaml"])
    port = free_port()
    # Paths and the port of this test; everything else is the role's.
    content["host"] = {"sysfs": str(root / "sys"), "procfs": str(root / "proc")}
    content["web"]["listenAddresses"] = [f"127.0.0.1:{port}"]
    path, log = folder / "config.yaml", folder / "log"
    path.write_text(yaml.safe_dump(content))
    command = [str(program), f"--config.file={path}", "--kube.node-name=n1"]
    environment = {"PATH": os.defpath}
    with log.open("w") as output, subprocess.Popen(
        command, stdout=output, stderr=subprocess.STDOUT, env=environment
    ) as process:  # fmt: skip
        try:
            yield Running(process, port, log)
        finally:
            process.kill()


class Running(t.NamedTuple):
    """A process of Kepler, whose metrics are at the port of loopback."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def starts(self) -> bool:
        """Whether it answers and stays alive."""

        def is_decided() -> bool:
            return self.process.poll() is not None or answers(self.port, "/metrics")

        wait_until(is_decided, 20.0, f"Kepler to start or to end (see {self.log})")
        return self.process.poll() is None


def test_a_real_kepler_takes_the_configuration_of_the_role_and_gives_the_watts_of_the_files(
    program: Path, host: Host, tmp_path: Path
) -> None:
    with kepler(program, "rapl", host.folder, tmp_path) as running:
        assert running.starts(), running.log.read_text()
        expected = pytest.approx(WATTS, rel=0.1)
        wait_until(lambda: watts_at(running.port) == expected, 20.0, f"{WATTS} W")
        figures = samples(metrics_at(running.port))
        told = running.log.read_text().lower()
    assert "unknown" not in told and "deprecat" not in told

    def package(family: str) -> list[float]:
        prefix = f"{family}{{"
        return [
            value
            for series, value in figures.items()
            if series.startswith(prefix) and 'zone="package"' in series
        ]

    # One container does all the work.
    [active] = package("kepler_node_cpu_active_watts")
    assert package("kepler_container_cpu_watts") == pytest.approx([active], rel=0.05)


def test_a_real_kepler_starts_where_the_probe_says_so_and_ends_elsewhere(
    program: Path, tmp_path: Path
) -> None:
    # Sensors of GPUs alone would be mistaken for the processor's.
    for name in TREES.keys() - {"gpu sensors"}:
        folder = tmp_path / name.replace(" ", "-")
        Host(folder, cores=1).create()
        shutil.rmtree(folder / "sys")
        (folder / "proc" / "cpuinfo").unlink()
        root = grow(TREES[name], folder)
        verdict = read_node({"root": str(root), "kepler_version": VERSION})
        meters = [verdict["meter"]] if verdict["supported"] else ["rapl", "hwmon"]
        for meter in meters:
            with kepler(program, meter, root, folder) as running:
                told = f"{name}, {meter}: {verdict['reasons']}; {running.log}"
                assert running.starts() == verdict["supported"], told


LEVELS = ["node", "container", "pod"]


def metrics_at(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def watts_at(port: int) -> dict[str, float]:
    """Power of the node by zone, as the collection reads them; none before the second sample."""
    families = {reader.NODE_WATTS, reader.POD_JOULES}
    found = reader.parse(metrics_at(port), families)
    return {one.labels["zone"]: one.value for one in found if one.value > 0}
