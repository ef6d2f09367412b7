# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus, which scrapes the Keplers of the lab and evaluates the collection's rules.

Its promtool checks metrics, rules and dashboards in tests; no lab starts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from lab import kepler
from lab.gotools import GoTools, Say, build
from lab.machines import Machine, build_machines
from lab.process import REPOSITORY, Service
from lab.serving import answers
from lab.state import LabSettings, LabState

JsonObject = dict[str, Any]

PROGRAMS = GoTools(
    name="prometheus",
    module=Path(__file__).resolve().parent,
    programs={
        # The first one takes a minute with its dependencies, the second one two more.
        "promtool": "github.com/prometheus/prometheus/cmd/promtool",
        "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
    },
    duration="5 minutes",
    # Without the clients of all clouds, since nothing is discovered here.
    build_tags=("remove_all_sd",),
)
RULES = REPOSITORY / "roles" / "observe" / "files" / "prometheus-rules.yml"
INTERVAL = "1s"


def find_promtool(say: Say) -> Path:
    """The pinned promtool; builds it if the cache has none. Raises LabError."""
    return build(PROGRAMS, say) / "promtool"


def prepare(state: LabState, settings: LabSettings, say: Say) -> None:
    """Build the program if the cache has none, and write its configuration. Raises LabError."""
    build(PROGRAMS, say)
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    rules = state.run / "prometheus-rules.yml"
    rules.write_text(yaml.safe_dump(at_once(yaml.safe_load(RULES.read_text()))))
    content = configuration(machines, settings.ports[kepler.PORT], rules)
    _configuration_file(state).write_text(yaml.safe_dump(content, sort_keys=False))


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """One process; ready when it answers queries."""
    port = settings.ports["prometheus"]
    command = (
        str(build(PROGRAMS, print) / "prometheus"),
        f"--config.file={_configuration_file(state)}",
        f"--storage.tsdb.path={state.run / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.retention.time=1h",
    )
    return [Service("prometheus", command, ready=lambda: answers(port, "/-/ready"))]


def configuration(machines: Sequence[Machine], port: int, rules: Path) -> JsonObject:
    """Scrapes of each Kepler, with its node as the instance, and the rules."""
    targets = [
        {"targets": [f"{machine.bmc_address}:{port}"], "labels": {"instance": machine.name}}
        for machine in machines
    ]
    return {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "kepler", "static_configs": targets}],
    }


def at_once(rules: JsonObject) -> JsonObject:
    """The rules with alerts that fire at once, because minutes are long in a lab."""
    return {
        "groups": [
            {
                **group,
                "rules": [{k: v for k, v in rule.items() if k != "for"} for rule in group["rules"]],
            }
            for group in rules["groups"]
        ]
    }


def _configuration_file(state: LabState) -> Path:
    return state.run / "prometheus.yml"
