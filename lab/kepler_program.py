# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kepler, if a program `kepler` is on PATH; the lab neither contains nor builds one.

It runs for the first machine of a lab, beside the simulated Keplers, on files in place of the
machine's /sys and /proc: RAPL counters and the time of its CPUs, which follow the physics.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]

PROGRAM = "kepler"
# Kepler recognises a process in a container by the name of its control group.
CONTAINER = "c0ffee" + 58 * "0"
_CGROUP = f"0::/kubepods/burstable/pod00000000-0000-0000-0000-000000000001/{CONTAINER}\n"
_PID = 700
_TICKS = 100
# Range of an Intel package's counter, which then wraps around to zero.
_MAX_MICROJOULES = 262_143_328_850
_CPU_INFO = """\
processor\t: {number}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 106
model name\t: Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz
physical id\t: 0
siblings\t: {cores}
core id\t\t: {number}
cpu cores\t: {cores}
flags\t\t: fpu

"""


def find() -> Path | None:
    """The program on PATH; None if there is none."""
    found = shutil.which(PROGRAM)
    return Path(found) if found else None


def configuration(host: Host, node: str, port: int) -> JsonObject:
    """The configuration file for a host, with keys that every Kepler since 0.10 knows."""
    return {
        "log": {"level": "info", "format": "text"},
        "host": {"sysfs": str(host.sys), "procfs": str(host.proc)},
        "monitor": {"interval": "1s", "staleness": "500ms", "maxTerminated": 0},
        "exporter": {"prometheus": {"enabled": True, "metricsLevel": ["node", "container"]}},
        "web": {"listenAddresses": [f"127.0.0.1:{port}"]},
        "kube": {"enabled": False, "nodeName": node},
    }


@dataclass
class Host:
    """The files of one machine, whose work is all done by one process in a container."""

    folder: Path
    cores: int
    zones: Mapping[str, str] = field(
        default_factory=lambda: {"package": "intel-rapl:0", "dram": "intel-rapl:0:0"}
    )
    joules: dict[str, float] = field(default_factory=dict)
    busy_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def sys(self) -> Path:
        return self.folder / "sys"

    @property
    def proc(self) -> Path:
        return self.folder / "proc"

    def create(self) -> None:
        """Write all files, with counters at zero."""
        for zone, name in self.zones.items():
            place = self._zone(name)
            place.mkdir(parents=True, exist_ok=True)
            (place / "name").write_text("package-0\n" if zone == "package" else f"{zone}\n")
            (place / "max_energy_range_uj").write_text(f"{_MAX_MICROJOULES}\n")
        process = self.proc / str(_PID)
        process.mkdir(parents=True, exist_ok=True)
        for name, text in {
            "comm": "work\n",
            "cgroup": _CGROUP,
            "cmdline": "/bin/work\0",
            "environ": "A=b\0",
        }.items():
            (process / name).write_text(text)
        if not (process / "exe").is_symlink():
            (process / "exe").symlink_to("/bin/work")
        info = (_CPU_INFO.format(number=number, cores=self.cores) for number in range(self.cores))
        (self.proc / "cpuinfo").write_text("".join(info))
        self.feed({}, 0.0, 0.0)

    def feed(self, watts: Mapping[str, float], cpu_cores: float, seconds: float) -> None:
        """Count the energy of each zone and the time of the CPUs over these seconds."""
        self.seconds += seconds
        self.busy_seconds += min(cpu_cores, self.cores) * seconds
        for zone, name in self.zones.items():
            joules = self.joules[zone] = self.joules.get(zone, 0.0) + watts.get(zone, 0.0) * seconds
            _replace(self._zone(name) / "energy_uj", f"{int(joules * 1e6) % _MAX_MICROJOULES}\n")
        busy = int(self.busy_seconds * _TICKS)
        idle = int(self.seconds * self.cores * _TICKS) - busy
        times = f"{busy} 0 0 {idle} 0 0 0 0 0 0"
        softirq = " ".join("0" * 11)
        _replace(
            self.proc / "stat",
            f"cpu  {times}\ncpu0 {times}\nintr 0\nctxt 0\nbtime 1700000000\nprocesses 1\n"
            f"procs_running 1\nprocs_blocked 0\nsoftirq {softirq}\n",
        )
        # utime is the 14th field of 52.
        fields = ["S", *["0"] * 10, str(busy), *["0"] * 38]
        _replace(self.proc / str(_PID) / "stat", f"{_PID} (work) {' '.join(fields)}\n")

    def _zone(self, name: str) -> Path:
        return self.sys / "class" / "powercap" / name


def _replace(path: Path, text: str) -> None:
    """Replace the file atomically, so that readers see either text as a whole."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.replace(path)
