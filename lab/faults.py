# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab fault …`: break one thing, or repair everything."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lab import process
from lab.conditions import MACHINE_FAULTS, RMD_FAULTS
from lab.errors import LabError
from lab.machines import build_machines, select
from lab.state import LabSettings, LabState

PREDICTOR_DOWN = "predictor-down"
APISERVER_RESTART = "apiserver-restart"
CLEAR = "clear"
LAB_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        PREDICTOR_DOWN: "the inference server is stopped",
        APISERVER_RESTART: "the API server is stopped and started again",
        CLEAR: "all faults are cleared",
    }
)
BMC_ADMIN = "bmc_admin"
RMD_ADMIN = "rmd_admin"
_SIMULATORS: Mapping[str, str] = MappingProxyType({BMC_ADMIN: "BMCs", RMD_ADMIN: "RMD daemons"})
ADMIN_TIMEOUT_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `lab fault`; their result goes to `run`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    described = {**MACHINE_FAULTS, **RMD_FAULTS, **LAB_FAULTS}
    parser.description = "\n".join(f"{name:<20} {text}" for name, text in described.items())
    parser.add_argument("fault", choices=list(described), metavar="FAULT", help="see above")
    parser.add_argument("--node", action="append", default=[], help="a machine; may be repeated")
    parser.add_argument(
        "--count", type=int, default=0, help="the first COUNT machines by name without a fault"
    )
    parser.add_argument("--seconds", type=float, help="of slow-bmc, rmd-slow and unavailable")
    parser.add_argument(
        "--silent",
        action="store_true",
        help="of dead-bmc and rmd-dead: accept connections, never answer",
    )


def run(arguments: argparse.Namespace, state: LabState) -> int:
    """Do the work of the arguments; print the result. Raises LabError."""
    settings = state.read_settings()
    if arguments.fault == PREDICTOR_DOWN:
        process.stop(state, ["predictor"])
        print("The predictor is down until `lab fault clear`.")
    elif arguments.fault == APISERVER_RESTART:
        from lab import controlplane  # needed only by this fault

        controlplane.restart_apiserver(state)
        print("The API server was restarted.")
    elif arguments.fault == CLEAR:
        clear(state, settings)
        print("All faults are cleared.")
    else:
        nodes = inject(arguments, settings)
        print(f"{arguments.fault}: {', '.join(nodes)}")
    return 0


def inject(arguments: argparse.Namespace, settings: LabSettings) -> list[str]:
    """Break the selected machines; return their names."""
    port = RMD_ADMIN if arguments.fault in RMD_FAULTS else BMC_ADMIN
    present = call(settings, "GET", "/faults", port=port)
    nodes = _chosen(arguments, settings, {fault["node"] for fault in present})
    call(
        settings,
        "POST",
        "/faults",
        [
            {
                "kind": arguments.fault,
                "node": node,
                "seconds": arguments.seconds,
                "silent": arguments.silent,
            }
            for node in nodes
        ],
        port=port,
    )
    return nodes


def clear(state: LabState, settings: LabSettings) -> None:
    """Clear all faults; if this lab has a predictor, it runs afterwards."""
    if "bmc" in settings.parts:
        call(settings, "DELETE", "/faults")
    if "rmd" in settings.parts:
        call(settings, "DELETE", "/faults", port=RMD_ADMIN)
    if "predictor" in settings.parts and process.process_id(state, "predictor") is None:
        from lab import predictor  # imported only when necessary: it looks for its environment

        process.start(predictor.services(state, settings), state)


def call(
    settings: LabSettings, method: str, path: str, body: Any = None, port: str = BMC_ADMIN
) -> Any:
    """Send a request to a simulator's admin API; JSON in and out. Raises LabError."""
    simulated = _SIMULATORS[port]
    number = settings.ports.get(port)
    if number is None:
        raise LabError(f"This lab has no simulated {simulated}; start one that has with `lab up`.")
    request = urllib.request.Request(f"http://127.0.0.1:{number}{path}", method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ADMIN_TIMEOUT_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise LabError(json.load(error)["error"]) from None
    except OSError as error:
        raise LabError(
            f"The simulator of the {simulated} does not answer on 127.0.0.1:{number} ({error});"
            " see `lab status` and its log."
        ) from error


def _chosen(arguments: argparse.Namespace, settings: LabSettings, broken: set[str]) -> list[str]:
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    nodes = [machine.name for machine in select(machines, arguments.node)]
    if not nodes and arguments.count < 1:
        raise LabError(f"{arguments.fault} needs --node NAME (repeatable) or --count K.")
    whole = sorted(machine.name for machine in machines if machine.name not in {*broken, *nodes})
    if len(whole) < arguments.count:
        raise LabError(
            f"Only {len(whole)} machines are without a fault, {arguments.count} were requested."
        )
    return nodes + whole[: arguments.count]
