# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of every module that asks many machines over HTTP; see argspec.FLEET."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  snapshot:
    description:
      - Path of a snapshot document, written by M(wattwise.kube.fleet_snapshot_info). The targets
        are taken from its NodeConfigs, and credentials from the Secrets that these name, which the
        module reads itself.
    type: path
  credentials:
    description:
      - User names and passwords by key. A target names its entry with C(credential).
      - Each entry has C(username) and C(password), and may have C(ca), certificates in PEM that the
        target is verified with, and C(tls_fingerprint), one or a list of SHA-256 fingerprints.
    type: dict
  node_selector:
    description:
      - Label selector in Kubernetes' text form. Of the nodes in O(snapshot) only those that it
        selects are asked, so that several gateways can each read their share.
    type: str
  timeout:
    description:
      - Seconds that one target may take in all.
    type: float
    default: 10.0
  concurrency:
    description:
      - How many targets are asked at the same time. One BMC never gets more than one request at a
        time.
    type: int
    default: 64
  allow_plain_http:
    description:
      - Whether a credential may be sent to a target whose endpoint is V(http://…), over which
        anybody on the way can read it. Otherwise such a target is an error and gets no request. If
        V(true), the module warns with the number of targets.
      - A target without credential is asked in either case. A NodeConfig cannot allow this.
    type: bool
    default: false
  validate_certs:
    description:
      - Whether certificates are verified. If V(false), the module warns with the number of targets.
      - Machines with self-signed certificates are better named by O(tls_fingerprint) or O(ca_path).
    type: bool
    default: true
  ca_path:
    description:
      - Path of the certificates, in PEM, that targets are verified with, in place of the system's.
    type: path
  tls_fingerprint:
    description:
      - SHA-256 fingerprints, in hexadecimal with or without colons. A target whose certificate has
        none of them gets no request. For certificates that are pinned here, nothing else is
        verified.
    type: list
    elements: str
    default: []
  on_error:
    description:
      - Whether targets that fail are only reported, or fail the task as well. V(fail) is the same
        as a O(min_success) of V(1.0).
    type: str
    default: report
    choices:
      - report
      - fail
  min_success:
    description:
      - Share of the targets, from V(0.0) to V(1.0), that must succeed; the task fails below it,
        with all results in the failure.
    type: float
    default: 0.0
requirements:
  - aiohttp >= 3.10
"""
