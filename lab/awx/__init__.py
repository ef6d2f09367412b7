# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stateful simulator of AWX's API, with the endpoints that modules of ``awx.awx`` use.

Validation, refusals, the precedence of variables, artifacts of a workflow, failed updates of
inventory sources and deletion in the background follow the source of AWX 24.6. Fields of lists and
associations follow what the modules of ``awx.awx`` 24.6.1 and ansible-rulebook 1.3 expect. All
accounts may read everything. Jobs run in a function given by the test; in a lab there are no jobs.
"""

from __future__ import annotations

from lab.process import Service
from lab.serving import answers, simulator_process
from lab.state import LabSettings, LabState


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """One process; ready when it answers."""
    port = settings.ports["awx"]
    return [simulator_process("awx", state, lambda: answers(port, "/api/v2/ping/"))]
