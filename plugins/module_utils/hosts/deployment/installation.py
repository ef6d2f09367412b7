# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The installer Job of a cluster: its inputs and its progress.

The Job runs once for equal inputs. The status keeps the outcome, so a Job that was deleted, or
removed after its time to live, is not made again.
"""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass

from ...base.context import Parameters, Result
from ...base.errors import told_text
from ...base.fields.lenient import member, objects, only, text, whole
from ...base.json_types import Object
from ...kube.resource.conditions import Failure
from ...kube.resource.run import Run
from ..assignment_request import AssignmentRequest
from ..outputs import cluster_objects
from ..provisioning import Request

Outcome = t.Literal["Running", "Succeeded", "Failed"]
OUTCOMES: tuple[Outcome, ...] = t.get_args(Outcome)
INPUTS_ANNOTATION = "bpa.akraino.org/inputs"
# A new value in this annotation of a Provisioning makes a failed installer run again.
RETRY_ANNOTATION = "bpa.akraino.org/retry"
_MAX_MESSAGE_LENGTH = 1000
_POD = only(
    *("metadata.name", "metadata.deletionTimestamp", "status.phase", "status.containerStatuses")
)


@dataclass(frozen=True)
class Installation:
    """One run of the installer."""

    inputs: str
    outcome: Outcome
    message: str = ""

    def as_dict(self) -> dict[str, str]:
        """The field of the status."""
        fields = {"inputs": self.inputs, "outcome": self.outcome, "message": self.message}
        return {name: value for name, value in fields.items() if value}

    @property
    def is_over(self) -> bool:
        return self.outcome != "Running"


def inputs_of(request: Request, files: t.Mapping[str, str], image: str, annotations: Object) -> str:
    """The digest of all inputs of the installer."""
    given = {
        "files": dict(files),
        "image": image,
        "plugins": request.plugins,
        "secret": request.ssh.secret_name,
        "subnets": [str(request.pod_subnet), str(request.service_subnet)],
        "retry": str(annotations.get(RETRY_ANNOTATION) or ""),
    }
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:32]


def stored_installation(status: Object) -> Installation | None:
    """The run in a status; None without a readable one."""
    found = status.get("installation")
    inputs, outcome = text(member(found, "inputs")), member(found, "outcome")
    if not inputs or outcome not in OUTCOMES:
        return None
    return Installation(inputs, outcome, text(member(found, "message"), _MAX_MESSAGE_LENGTH))


def installation_of(job: Object, pods: t.Sequence[t.Any]) -> Installation:
    """Progress of the Job. A failed one has the last log line of its pod."""
    inputs = text(member(job, "metadata", "annotations", INPUTS_ANNOTATION))
    status = member(job, "status")
    over = {
        each.get("type"): text(each.get("message"), _MAX_MESSAGE_LENGTH)
        for each in objects(member(status, "conditions"))
        if each.get("status") == "True"
    }
    if "Complete" in over or whole(member(status, "succeeded")):
        return Installation(inputs, "Succeeded")
    if "Failed" in over or whole(member(status, "failed")):
        return Installation(inputs, "Failed", _last_words(pods) or over.get("Failed", ""))
    return Installation(inputs, "Running", _waiting(pods))


def _last_words(pods: t.Sequence[t.Any]) -> str:
    """The last line of a container's message, by FallbackToLogsOnError the end of its log."""
    for status in _containers(pods):
        ended = member(status, "state", "terminated")
        if whole(member(ended, "exitCode")) == 0:
            continue
        given = member(ended, "message")
        lines = given.strip().splitlines() if isinstance(given, str) else []
        if lines:
            return told_text(lines[-1][:_MAX_MESSAGE_LENGTH])
        if member(ended, "reason"):
            return told_text(f"{text(member(ended, 'reason'))} {whole(member(ended, 'exitCode'))}")
    return ""


def _waiting(pods: t.Sequence[t.Any]) -> str:
    """Why the pod does not run, such as an image that cannot be pulled."""
    for status in _containers(pods):
        waiting = member(status, "state", "waiting")
        if member(waiting, "message"):
            return text(member(waiting, "message"), _MAX_MESSAGE_LENGTH)
    return ""


def _containers(pods: t.Sequence[t.Any]) -> list[Object]:
    return [
        status for pod in pods for status in objects(member(pod, "status", "containerStatuses"))
    ]


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
    name = f"kud-{request.owner.cluster}"
    job = run.kube.find(f"/apis/batch/v1/namespaces/{run.given['namespace']}/jobs/{name}")
    pods = list_pods(run, {"batch.kubernetes.io/job-name": name}) if job else []
    found = installation_of(job, pods) if job else None
    if found is not None and (found.inputs == inputs or not found.is_over):
        return found
    _start(run, request, files, inputs)
    return Installation(inputs, "Running")


def _start(run: Run, request: AssignmentRequest, files: Parameters, inputs: str) -> None:
    place = (request.owner.cluster, run.given["namespace"])
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
    return run.kube.list(path, {"labelSelector": selector}, _POD)
