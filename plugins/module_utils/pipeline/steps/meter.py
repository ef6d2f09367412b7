# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``meter``: the power draw of pods."""

from __future__ import annotations

from ...base import metrics
from ...base.errors import WattwiseError
from ...nodeconfig.readings import Readings
from ...observe.metering import metering
from ...observe.metering.metering import Metering
from ..run import Run
from .cluster import Cluster


def meter_pods(run: Run, cluster: Cluster, readings: Readings) -> Metering | None:
    """The power draw of pods; a failure does not end the run, because no other step needs it."""
    options, found = run.options["meter"], None
    with run.log.step("meter") as (step, context):
        try:
            last = metering.LastMetering.from_document(run.folder.last("metering"), context.now())
            found = metering.meter(
                options, cluster.snapshot, readings, context, run.kube, last, cluster.node_names
            )
            step.errors += [error.as_dict() for error in found.errors]
            step.counts = {
                "pods": len(found.pods),
                "nodes": len(found.nodes),
                "left_out": found.left_out,
            }
            run.write("metering", found.as_document())
            if options["textfile"]:
                metrics.write(options["textfile"], found.metrics(options["textfile_labels"]))
        except WattwiseError as error:
            context.warn(f"The power draw of pods was not read or not written: {error}")
            step.errors.append({"name": "", "reason": "malformed", "detail": str(error)})
    return found
