# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The installer of a cluster: one Job for equal inputs, which later runs track."""

from __future__ import annotations

import typing as t

from ...base.context import Parameters, Result
from ...base.fields.lenient import member
from ...kube.resource.conditions import Failure
from ...kube.resource.run import Run
from ..assignment_request import AssignmentRequest
from ..outputs import cluster_objects
from .installation import (
    INPUTS_ANNOTATION,
    Installation,
    inputs_of,
    installation_of,
    stored_installation,
)


def install(run: Run, request: AssignmentRequest, outputs: Result) -> Installation | Failure | None:
    """The installation, or the reason why it does not start; None without an installer."""
    image, unknown = run.given["installer_image"], outputs["hosts_without_key"]
    if not image:
        return None
    if unknown:
        told = f"No host key is known for {', '.join(unknown[:10])}; the installer cannot go on"
        return Failure("NoHostKeys", told)
    files = {name: outputs[name] for name in ("hosts_ini", "known_hosts")}
    annotations = member(run.resource, "metadata", "annotations") or {}
    inputs = inputs_of(request.request, files, image, annotations)
    stored = stored_installation(run.stored_status)
    if stored and stored.inputs == inputs and stored.is_over:
        return stored
    name = f"kud-{request.cluster}"
    job = run.kube.find(f"/apis/batch/v1/namespaces/{run.given['namespace']}/jobs/{name}")
    pods = list_pods(run, {"batch.kubernetes.io/job-name": name}) if job else []
    found = installation_of(job, pods) if job else None
    if found is not None and (found.inputs == inputs or not found.is_over):
        return found
    _start(run, request, files, inputs)
    return Installation(inputs, "Running")


def _start(run: Run, request: AssignmentRequest, files: Parameters, inputs: str) -> None:
    place = (request.cluster, run.given["namespace"])
    job = cluster_objects.installer_job(request.request, *place, run.given["installer_image"])
    job["metadata"]["annotations"] = {INPUTS_ANNOTATION: inputs}
    # Pods of a Job are immutable: an ended Job is replaced.
    job["spec"]["template"]["metadata"]["annotations"] = {INPUTS_ANNOTATION: inputs}
    data = cluster_objects.installer_files(*place, files["hosts_ini"], files["known_hosts"])
    run.write([data, job], **owned(run), recreate=True)


def owned(run: Run) -> Result:
    """Options of a write of objects that belong to the Provisioning, once it is stored."""
    is_stored = member(run.resource, "metadata", "uid") is not None
    return {"foreign": "refuse", **({"owner": run.reference} if is_stored else {})}


def list_pods(run: Run, labels: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Pods in the namespace of the Provisioning."""
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    path = f"/api/v1/namespaces/{run.given['namespace']}/pods"
    return run.kube.list(path, {"labelSelector": selector}, _pod)


def _pod(item: dict[str, t.Any]) -> dict[str, t.Any]:
    metadata = item.get("metadata") or {}
    status = {key: member(item, "status", key) for key in ("phase", "containerStatuses")}
    return {
        "metadata": {key: metadata.get(key) for key in ("name", "deletionTimestamp")},
        "status": status,
    }
