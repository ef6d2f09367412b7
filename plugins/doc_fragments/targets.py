# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option ``targets`` of modules that read machines, and what they remember of accounts.

See poll.reading_spec and poll.AUTHENTICATION. A fragment cannot add a suboption to those of
another, so those that modules share stand here once and each fragment is put together.
"""

from __future__ import annotations

_START = r"""
options:
  targets:
    description:
"""
_FORM = r"""
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the node, unique in the list.
        type: str
        required: true
"""
_BMC_START = r"""
      - The BMCs to read. Either this or O(snapshot) is required.
"""
_BMC_ENDPOINT = r"""
      endpoint:
        description:
          - URL of the BMC, such as V(https://10.0.0.1) or V(https://[fd00::1]:8443). A base path
            is kept.
        type: str
        required: true
"""
_SENSORS = r"""
      sensors:
        description:
          - The target's entry in RV(sensors) of an earlier result. Each quantity then costs one
            request, until the resource is gone or its sensor has another name.
          - With O(snapshot) this comes from C(status.sensors) of the NodeConfigs.
        type: dict
"""
_PRESSURE_START = r"""
      - The nodes to read. Either this or O(snapshot) is required.
      - The sensor is looked up by the first of O(targets[].sensor), O(targets[].node_name) and
        O(targets[].node_ip) that is given, else by O(targets[].name).
"""
_PRESSURE_ENDPOINT = r"""
      endpoint:
        description:
          - URL of the pressure server, such as V(http://10.0.0.1:5000). A base path is kept.
        type: str
        required: true
      sensor:
        description: Identifier of a sensor.
        type: str
      node_name:
        description: Name of the node, as the pressure server knows it.
        type: str
      node_ip:
        description: Address of the node, as the pressure server knows it.
        type: str
"""
_ACCESS = r"""
      username:
        description:
          - User name, together with O(targets[].password). It goes before every other credential.
        type: str
      password:
        description: Password, together with O(targets[].username).
        type: str
      credential:
        description:
          - Key of an entry in O(credentials), or C(<namespace>/<name>) of a Secret with the keys
            C(username) and C(password), and optionally C(ca.crt) and C(tls_fingerprint).
          - If it is given but not there, the target is an error and gets no request. A target that
            names no credential gets the entry C(default) of O(credentials), if there is one.
        type: str
      allow_plain_http:
        description:
          - Whether the credential may be sent to this target over plain HTTP; O(allow_plain_http)
            by default.
        type: bool
      validate_certs:
        description: Whether this target's certificate is verified; O(validate_certs) by default.
        type: bool
      ca_path:
        description: Path of certificates in PEM that this target is verified with.
        type: path
      tls_fingerprint:
        description:
          - SHA-256 fingerprints of the target's certificate or of its public key. If one fits,
            nothing else is verified; if none does, nothing is sent.
        type: list
        elements: str
"""


class ModuleDocFragment:
    """Documentation only."""

    # Annotated, because ansible-test takes every plain assignment here for one text.
    BMC: str = _START + _BMC_START + _FORM + _BMC_ENDPOINT + _ACCESS

    BMC_WITH_SENSORS: str = BMC + _SENSORS

    PRESSURE: str = _START + _PRESSURE_START + _FORM + _PRESSURE_ENDPOINT + _ACCESS

    REFRESH = r"""
options:
  previous:
    description:
      - Path of the readings document of the last observation; may be absent.
      - A machine of O(snapshot) whose reading there, or in the status of its NodeConfig, is younger
        than its C(fetchInterval) is not asked for it. The reading is returned with its own time in
        C(kept).
    type: path
  refresh:
    description: Whether every machine is asked, however young its last reading is.
    type: bool
    default: false
notes:
  - A machine may cost 1,000 requests, 2 MiB in all its answers together and 50,000 members of JSON,
    64 deep, with no text over 64 KiB. One that needs more is an error with the reason V(malformed).
"""

    AUTHENTICATION = r"""
options:
  default_credential_namespaces:
    description:
      - Namespaces whose NodeConfigs get the entry C(default) of O(credentials), or what
        E(WATTWISE_REDFISH_USERNAME) and E(WATTWISE_REDFISH_PASSWORD) say, where they name no
        Secret. Give only namespaces in which nobody may write NodeConfigs who may not know this
        password.
      - A NodeConfig of another namespace without a Secret is asked without credential. If its
        machine wants one, that is an error.
      - Targets in O(targets) are the user's own and get the entry C(default) in any case.
    type: list
    elements: str
    default: []
  authentication:
    description:
      - What another module of the same run returned as RV(authentication), so that the two together
        do not lock an account that both find refused.
      - It takes the place of what the NodeConfigs in O(snapshot) remember for the same nodes.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      failures:
        description: How often in a row the account was refused.
        type: int
        default: 0
      last_attempt:
        description: When it was tried last, as in C(2026-01-31T12:00:00Z).
        type: str
      secret_resource_version:
        description: Resource version of the Secret that was refused.
        type: str
notes:
  - An account that was refused (HTTP 401 or 403) is not tried again in the same run. With
    O(snapshot), what the NodeConfigs remember is obeyed as well. After a refusal a machine is asked
    again only when its Secret changed, or after 5, 10, 20, 40 and then 60 minutes, because real
    BMCs lock accounts.
"""
