#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module kepler_addons_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kepler_addons_reconciliation
short_description: Integrate Kepler with Prometheus, Grafana, cert-manager and others
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Applies the objects of all wanted add-ons as one set, and removes those of add-ons that are no
    longer wanted.
  - An add-on whose kinds the cluster does not serve has no objects. Its condition in RV(status)
    names the project to install, and all others are applied. The newest API version of a kind that
    the cluster serves is used.
  - O(spec) describes the add-ons. Without it the module reads the KeplerAddons
    (C(kepler.system.sustainable.computing.io/v1alpha1)) of this name, and writes their status.
  - The module does not wait for the operators of other projects.
options:
  # begin generated: kepler_addons_installation
  namespace:
    description: Namespace of Kepler and of the add-ons; created if missing.
    type: str
    default: kepler
  name:
    description: Name of the KeplerAddons, which begins the names of all objects.
    type: str
    default: kepler
  # end generated
  spec:
    description: Desired state, with the fields of the spec of KeplerAddons.
    type: dict
    suboptions:
      # begin generated: kepler_addons
      system:
        description: Name of the KeplerSystem, or of the installation by the kepler role, in this
          namespace.
        type: str
        default: kepler
      security:
        description: Encryption of the metrics, as the KeplerSystem has it.
        type: dict
        default: {}
        suboptions:
          mode:
            description: V(none) for plain HTTP, V(tls) for HTTPS, V(mtls) if Kepler also asks
              scrapers for a certificate.
            type: str
            default: none
            choices: [none, tls, mtls]
          server_secret:
            description: Secret with C(tls.crt) and C(tls.key) of Kepler.
            type: str
            default: kepler-server
          client_authority_secret:
            description: Secret with C(ca.crt), by which Kepler verifies scrapers.
            type: str
            default: kepler-client-authority
          client_secret:
            description: Secret with C(ca.crt), C(tls.crt) and C(tls.key) of the scraper.
            type: str
            default: kepler-client
      prometheus:
        description: Scraping by a Prometheus of the Prometheus operator, with rules.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether the add-on is wanted.
            type: bool
            default: false
          monitor:
            description: Whether a ServiceMonitor or a PodMonitor finds the collectors.
            type: str
            default: service
            choices: [service, pod]
          interval:
            description: Interval between scrapes.
            type: str
            default: 30s
          scrape_timeout:
            description: Time after which a scrape fails, at most the interval.
            type: str
            default: 10s
          labels:
            description: Labels of the objects, by which a Prometheus selects monitors and rules.
            type: dict
            default: {}
          rules:
            description: Whether recording rules and alerts are applied.
            type: bool
            default: true
      grafana:
        description: Dashboards in a Grafana of the Grafana operator.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether the add-on is wanted.
            type: bool
            default: false
          instance:
            description: Whether to make a Grafana with the labels of the selector.
            type: bool
            default: false
          instance_selector:
            description: Labels of the Grafana that gets datasource and dashboards.
            type: dict
            default: {dashboards: kepler}
          datasource:
            description: The Prometheus that dashboards read; none is added without a URL.
            type: dict
            default: {}
            suboptions:
              url:
                description: URL of Prometheus.
                type: str
                default: ""
              token_secret:
                description: Secret whose C(token) goes to Prometheus as a bearer token, only over
                  https.
                type: str
                default: ""
              authority_secret:
                description: Secret whose C(ca.crt) verifies Prometheus; authorities of the system
                  without it.
                type: str
                default: ""
          dashboards:
            description: Whether dashboards are applied.
            type: bool
            default: true
      tracing:
        description: A collector of traces. Kepler itself emits none.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether the add-on is wanted.
            type: bool
            default: false
          backend:
            description: V(otlp) passes traces on, V(jaeger) keeps them in the memory of Jaeger.
            type: str
            default: otlp
            choices: [otlp, jaeger]
          endpoint:
            description: URL of the receiver of OTLP over HTTP, for V(otlp).
            type: str
            default: ""
          image:
            description: Image of the collector with registry and tag, the operator's own by
              default. With V(jaeger) an image of Jaeger 2; without it the deprecated Jaeger
              operator is used.
            type: str
            default: ""
          resources:
            description: Resources of the container.
            type: dict
            default:
              requests: {cpu: 50m, memory: 64Mi, ephemeral-storage: 16Mi}
              limits: {memory: 256Mi, ephemeral-storage: 128Mi}
      logging:
        description: Collection of the logs of Kepler on its nodes.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether the add-on is wanted.
            type: bool
            default: false
          agent:
            description: V(opentelemetry) needs the OpenTelemetry operator, V(fluent-bit) needs
              none.
            type: str
            default: opentelemetry
            choices: [opentelemetry, fluent-bit]
          backend:
            description: Receiver of the logs.
            type: str
            default: loki
            choices: [loki, elasticsearch]
          endpoint:
            description: URL of the receiver.
            type: str
            default: ""
          image:
            description: Image of the agent with registry and tag.
            type: str
            default: ""
          credential_secret:
            description: Secret with C(username) and C(password) for the receiver, whose URL must be
              https.
            type: str
            default: ""
          resources:
            description: Resources of the container.
            type: dict
            default:
              requests: {cpu: 50m, memory: 64Mi, ephemeral-storage: 16Mi}
              limits: {memory: 256Mi, ephemeral-storage: 128Mi}
      certificates:
        description: Certificates of Kepler and its scraper, in the Secrets of security.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether the add-on is wanted.
            type: bool
            default: false
          issuer:
            description: V(auto) is cert-manager if the cluster serves it, and the library
              otherwise.
            type: str
            default: auto
            choices: [auto, cert-manager, library]
          duration:
            description: Validity of a certificate, in whole days unless cert-manager issues. The
              authority is valid ten times as long.
            type: str
            default: 2160h
          renew_before:
            description: Time before its end at which a certificate is renewed, in whole days
              likewise.
            type: str
            default: 720h
          key_bits:
            description: Length of RSA keys, in bits.
            type: int
            default: 3072
          authority_namespace:
            description: Namespace of the authority's key, for the library; created if missing.
            type: str
            default: kepler-authority
      service_mesh:
        description: Kepler beside or in an Istio mesh. Its pods never get a sidecar.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether the add-on is wanted.
            type: bool
            default: false
          mode:
            description: V(exclude) lets clients in the mesh reach Kepler outside of it. V(ambient)
              includes Kepler in the mesh, with mutual TLS.
            type: str
            default: exclude
            choices: [exclude, ambient]
          scrapers:
            description: Accounts that may scrape in the V(ambient) mode, as
              cluster.local/ns/NAMESPACE/sa/NAME; all without any.
            type: list
            elements: str
            default: []
      # end generated
  rule_files:
    description: Files of Prometheus rules, each of which becomes a PrometheusRule.
    type: list
    elements: path
    default: []
  dashboard_files:
    description: Files of Grafana dashboards in JSON, each of which becomes a GrafanaDashboard.
    type: list
    elements: path
    default: []
  state:
    description:
      - V(absent) removes everything that O(spec) made. The namespace and KeplerAddons stay; the
        objects of KeplerAddons go with them.
      - Secrets that the library issued go too, once no DaemonSet of Kepler mounts them. O(spec) is
        needed only where it gives them names. Secrets from administrators and from cert-manager
        stay.
    type: str
    choices: [present, absent]
    default: present
  on_error:
    description: Effect of an error, after it is in the status of KeplerAddons. V(fail) fails the
      task, V(report) returns RV(failure). With O(spec) an error always fails the task.
    type: str
    choices: [report, fail]
    default: fail
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
seealso:
  - module: wattwise.kube.kepler_reconciliation
  - module: wattwise.kube.mutual_tls_certificates
requirements:
  - cryptography >= 42, if the library issues certificates
"""

EXAMPLES = r"""
- name: Scrape Kepler, with rules and dashboards
  wattwise.kube.kepler_addons_reconciliation:
    spec:
      prometheus:
        enabled: true
        labels:
          release: kube-prometheus-stack
      grafana:
        enabled: true
        datasource:
          url: http://prometheus-operated.monitoring.svc:9090
    rule_files:
      - roles/observe/files/prometheus-rules.yml
    dashboard_files:
      - roles/observe/files/grafana-dashboard.json

- name: Issue certificates for mutual TLS, and scrape with them
  wattwise.kube.kepler_addons_reconciliation:
    spec:
      security:
        mode: mtls
      certificates:
        enabled: true
      prometheus:
        enabled: true

- name: Carry out the KeplerAddons kepler
  wattwise.kube.kepler_addons_reconciliation:

- name: Remove all add-ons
  wattwise.kube.kepler_addons_reconciliation:
    state: absent
"""

RETURN = r"""
found:
  description: Whether add-ons are wanted, by O(spec) or by KeplerAddons.
  returned: success
  type: bool
  sample: true
status:
  description: Status of the add-ons, as KeplerAddons have it.
  returned: when RV(found) is true
  type: dict
  sample:
    observedGeneration: 1
    appliedGeneration: 1
    wanted: 2
    applied: 1
    conditions:
      - type: Prometheus
        status: "False"
        reason: KindNotServed
        message: >-
          The cluster serves no ServiceMonitor of monitoring.coreos.com/v1; install the Prometheus
          operator, or switch this add-on off.
failure:
  description: The error, with O(on_error=report).
  returned: when a run for KeplerAddons ended early
  type: str
  sample: "prometheus.interval: 'often' is not a duration; give a whole number with ms, s, m or h"
results:
  description: Result of each object, as in M(wattwise.kube.kube_apply).
  returned: success
  type: list
  elements: dict
  sample:
    - action: created
      api_version: monitoring.coreos.com/v1
      kind: ServiceMonitor
      name: kepler-addons-metrics
      namespace: kepler
pruned:
  description: Removed objects, in the form of RV(results).
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ..module_utils.kepler.addons import reconciliation as kepler_addons
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(kepler_addons.SPEC, kepler_addons.reconcile)


if __name__ == "__main__":
    main()
