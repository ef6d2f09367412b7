# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The watches that keep an extender's ClusterState up to date."""

from __future__ import annotations

import functools
import threading
import typing as t

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import ApiError
from ..kube.client import Kube
from ..kube.watch import Change, Collection
from . import publication, views
from .cluster_state import ClusterState

Say = t.Callable[[str], None]

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
METRICS = "/apis/metrics.k8s.io/v1beta1/nodes"
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
# metrics-server reads kubelets every 15 s by default.
_METRICS_SECONDS = 15.0
_IDLE_SECONDS = 1.0


class Feed:
    """Watches of one cluster, each in a thread of its own, until ``stop`` is set."""

    def __init__(self, kube: Kube, state: ClusterState, namespace: str, say: Say) -> None:
        """``namespace`` is the namespace of the ConfigMaps that runs publish."""
        self._kube, self._state, self._say = kube, state, say
        config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._collections: tuple[Collection[t.Any], ...] = (
            Collection(kube, NODES, views.view_node, self._node_changed, say=say),
            Collection(
                kube, PODS, views.view_pod, self._pod_changed, {"fieldSelector": _UNFINISHED}, say
            ),
            Collection(
                kube,
                config_maps,
                self._view_publication,
                self._publication_changed,
                {"labelSelector": publication.LABEL},
                say,
            ),
        )
        self._trouble = ""
        self.stop = threading.Event()
        self.crash: BaseException | None = None

    def start(self) -> None:
        """Begin to watch."""
        for collection in self._collections:
            self._in_a_thread(functools.partial(collection.run, self.stop))
        self._in_a_thread(self._poll_metrics)

    @property
    def is_ready(self) -> bool:
        """Whether every watched collection was listed once."""
        return all(collection.was_listed for collection in self._collections)

    def _in_a_thread(self, work: t.Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - the server ends with it
                self.crash = error

        threading.Thread(target=run, daemon=True).start()

    def _node_changed(self, change: Change[t.Any]) -> None:
        self._state.set_node(change.key[1], change.after)

    def _pod_changed(self, change: Change[views.PodLoad]) -> None:
        self._state.set_pod(change.key, change.after)

    def _view_publication(self, config_map: t.Any) -> publication.Publication | None:
        found = guarded(subject_of(config_map, "ConfigMap"), lambda: publication.read(config_map))
        if isinstance(found, Finding):
            self._say(f"{found}; the next run of the operator publishes it anew")
            return None
        return found

    def _publication_changed(self, change: Change[publication.Publication]) -> None:
        self._state.set_publication(change.key, change.after)

    def _poll_metrics(self) -> None:
        """metrics.k8s.io offers no watch. After a failed poll the last measurements count."""
        while not self.stop.is_set():
            needed = self._state.needs_measurements
            self._state.set_measured(self._measured() if needed else {})
            self.stop.wait(_METRICS_SECONDS if needed else _IDLE_SECONDS)

    def _measured(self) -> dict[str, views.Measured]:
        try:
            items = self._kube.unrepeating().list(METRICS)
        except ApiError as error:
            # A cluster without a metrics server has no metrics, for runs as for this.
            if error.status != 404 and str(error) != self._trouble:
                self._say(str(error))
            self._trouble = str(error)
            return {}
        self._trouble = ""
        found = (
            guarded(subject_of(item, "NodeMetrics"), functools.partial(views.measured, item))
            for item in items
        )
        return dict(one for one in found if not isinstance(one, Finding))
