# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of one running lab: its layout, and the settings of `up`."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from lab import releases
from lab.errors import LabError

DEFAULT_ROOT = Path(__file__).resolve().parent / ".state"


@dataclass(frozen=True)
class LabSettings:
    """Settings of `up`, and the chosen ports (by the name of their service).

    `parts` are the running ones; with `existing_cluster` the control plane is not the lab's.
    `kubernetes` is the requested minor version; "" means an installed control plane, or else the
    current release. `bare_metal_hosts` is the number of machines with a BareMetalHost.
    `power_time_factor` shortens the machines' boots and shutdowns, and the time until the cluster
    notices that a machine is off.
    """

    nodes: int = 50
    racks: int = 4
    seed: int = 1
    ports: dict[str, int] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    existing_cluster: bool = False
    kubernetes: str = field(default_factory=releases.asked)
    bare_metal_hosts: int = 0
    power_time_factor: float = 0.02


@dataclass(frozen=True)
class LabState:
    """Folder layout of one lab; all of its files are below `root`."""

    root: Path = DEFAULT_ROOT

    @classmethod
    def chosen(cls, folder: str | Path | None = None) -> LabState:
        """The lab of `folder`, else of the environment's LAB_STATE, else of lab/.state."""
        chosen = folder or os.environ.get("LAB_STATE") or DEFAULT_ROOT
        return cls(Path(chosen).expanduser().absolute())

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def inventory(self) -> Path:
        return self.root / "inventory.yml"

    @property
    def ca_certificate(self) -> Path:
        return self.root / "ca.pem"

    @property
    def settings_file(self) -> Path:
        return self.root / "settings.json"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def pids(self) -> Path:
        return self.root / "pids"

    @property
    def pki(self) -> Path:
        """Keys and certificates; readable only by the owner."""
        return self.root / "pki"

    @property
    def run(self) -> Path:
        """Working directory of the services, and their data."""
        return self.root / "run"

    def create(self) -> None:
        """Create the folders; `root` is closed to other users because it holds private keys."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.logs, self.pids, self.pki, self.run):
            folder.mkdir(mode=0o700, exist_ok=True)

    def read_settings(self) -> LabSettings:
        """Read the settings. Raises LabError without a lab, or if they cannot be read."""
        try:
            fields = dict(json.loads(self.settings_file.read_text()))
            return LabSettings(**{**fields, "parts": tuple(fields["parts"])})
        except FileNotFoundError:
            raise LabError(
                f"No lab was started in {self.root}; start one with `python -m lab up`."
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise LabError(
                f"The lab's settings in {self.settings_file} cannot be read ({error});"
                " remove the lab with `python -m lab down` and start it again."
            ) from error

    def write_settings(self, settings: LabSettings) -> None:
        temporary = self.settings_file.with_suffix(".new")
        temporary.write_text(json.dumps(dataclasses.asdict(settings), indent=2) + "\n")
        temporary.replace(self.settings_file)
