# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option ``targets`` of modules that read machines, and the state of their accounts.

See poll.reading_spec and poll.AUTHENTICATION. A fragment cannot add suboptions to another one, so
shared suboptions are defined once and each fragment is assembled from them.
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
      - The BMCs. Either this option or O(snapshot) is required.
"""
_BMC_ENDPOINT = r"""
      endpoint:
        description: URL of the BMC, such as V(https://10.0.0.1) or V(https://[fd00::1]:8443). A
          base path is kept.
        type: str
        required: true
"""
_SENSORS = r"""
      sensors:
        description:
          - Entry of the target in RV(sensors) of an earlier result. Reading a quantity from a known
            sensor takes one request. If the resource is gone or its sensor has another name, the
            module searches again.
          - With O(snapshot) the C(status.sensors) of the NodeConfigs are used instead.
        type: dict
"""
_SYSTEM = r"""
      system:
        description:
          - Path of the computer system, such as V(/redfish/v1/Systems/1), as an earlier result has
            it. The module then needs no search. A BMC of several servers requires it.
        type: str
"""
_POWER = r"""
      power_credential:
        description:
          - Key of an entry in O(credentials), or C(<namespace>/<name>) of a Secret, with the account
            for changes. O(targets[].credential) is the account that reads.
          - Without it, O(targets[].username) or O(targets[].credential) also changes. A target that
            names no account at all is changed with the entry C(power) of O(credentials), else with
            the entry C(default).
        type: str
      serial_number:
        description:
          - Serial number of the machine; for Dell also its service tag. A BMC that reports another
            one, or none, gets no change.
        type: str
      system_uuid:
        description:
          - UUID of the machine, in either byte order. A BMC that reports another one, or none, gets
            no change.
        type: str
"""
_HOST = r"""
      bare_metal_host:
        description:
          - C(<namespace>/<name>) of the BareMetalHost of the machine. If Metal3 manages it, the
            machine is switched by C(spec.online). With O(snapshot) its C(bare_metal_hosts) count.
        type: str
"""
_LIMIT = r"""
      limit_watts:
        description: Power limit of this machine, in W. O(limit_watts) by default.
        type: float
"""
_PRESSURE_START = r"""
      - Nodes to read. Either this option or O(snapshot) is required.
      - Sensors are looked up by the first given option of O(targets[].sensor),
        O(targets[].node_name) and O(targets[].node_ip), else by O(targets[].name).
"""
_PRESSURE_ENDPOINT = r"""
      endpoint:
        description: URL of the pressure server, such as V(http://10.0.0.1:5000). A base path is
          kept.
        type: str
        required: true
      sensor:
        description: Identifier of the sensor on the pressure server.
        type: str
      node_name:
        description: Name of the node on the pressure server.
        type: str
      node_ip:
        description: Address of the node on the pressure server.
        type: str
"""
_ACCESS = r"""
      username:
        description: User name. Requires O(targets[].password). Takes precedence over every other
          credential.
        type: str
      password:
        description: Password. Requires O(targets[].username).
        type: str
      credential:
        description:
          - Key of an entry in O(credentials), or C(<namespace>/<name>) of a Secret with the keys
            C(username) and C(password), and optionally C(ca.crt) and C(tls_fingerprint).
          - A target that names a missing credential is an error and gets no request. A target that
            names none gets the entry C(default) of O(credentials), if there is one.
        type: str
      allow_plain_http:
        description: Whether the credential may be sent to this target over plain HTTP.
          O(allow_plain_http) by default.
        type: bool
      validate_certs:
        description: Whether the certificate of this target is verified. O(validate_certs) by
          default.
        type: bool
      ca_path:
        description: Path of the PEM certificates that verify this target. O(ca_path) by default.
        type: path
      tls_fingerprint:
        description: SHA-256 fingerprints of the target's certificate or of its public key. A match
          needs no further verification. Without a match nothing is sent.
        type: list
        elements: str
"""


class ModuleDocFragment:
    """Documentation only."""

    # Annotated, because ansible-test takes every plain assignment here for one text.
    BMC: str = _START + _BMC_START + _FORM + _BMC_ENDPOINT + _ACCESS

    BMC_WITH_SENSORS: str = BMC + _SENSORS

    BMC_WITH_SYSTEM: str = BMC + _SYSTEM

    BMC_TO_SWITCH: str = BMC + _SYSTEM + _POWER + _HOST

    BMC_TO_LIMIT: str = BMC + _SYSTEM + _POWER + _LIMIT

    POWER_ACCOUNT = r"""
options: {}
notes:
  - The account that reads a machine is not the account that changes it. With O(snapshot) the
    annotation C(wattwise.github.io/power-secret) of the NodeConfig names a Secret of its namespace
    with the account for changes, else the entry C(power) of O(credentials) is used, for the
    namespaces in O(default_credential_namespaces). A NodeConfig with neither is an error.
"""

    PRESSURE: str = _START + _PRESSURE_START + _FORM + _PRESSURE_ENDPOINT + _ACCESS

    REFRESH = r"""
options:
  previous:
    description:
      - Path of the readings document of the last observation; may be absent.
      - A reading there, or in the status of a NodeConfig of O(snapshot), is kept while it is
        younger than C(fetchInterval). The result has its original time in C(kept).
    type: path
  refresh:
    description: Whether every machine is asked, regardless of the age of its last reading.
    type: bool
    default: false
notes:
  - Limits per machine are 1,000 requests, 2 MiB of answers, 50,000 JSON members, a nesting depth of
    64 and 64 KiB per text. A machine that exceeds a limit is an error with the reason V(malformed).
"""

    AUTHENTICATION = r"""
options:
  default_credential_namespaces:
    description:
      - Namespaces whose NodeConfigs get the entry C(default) of O(credentials) where they name no
        Secret. E(WATTWISE_REDFISH_USERNAME) and E(WATTWISE_REDFISH_PASSWORD) can supply this entry.
        List only namespaces whose writers of NodeConfigs may know the password.
      - NodeConfigs without a Secret in other namespaces are asked without a credential. A machine
        that requires one is then an error.
      - Entries of O(targets) may always use the entry C(default).
    type: list
    elements: str
    default: []
  authentication:
    description:
      - RV(authentication) of another module in the same run. It keeps two modules from locking an
        account that both find refused.
      - Its entries replace C(status.authentication) of the NodeConfigs in O(snapshot) for the same
        nodes.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      failures:
        description: Number of consecutive refusals of the account.
        type: int
        default: 0
      last_attempt:
        description: Time of the last attempt, such as C(2026-01-31T12:00:00Z).
        type: str
      secret_resource_version:
        description: Resource version of the refused Secret.
        type: str
notes:
  - A refused account (HTTP 401 or 403) is not tried again in the same run, because BMCs lock
    accounts. Later runs with O(snapshot) try it again after 5, 10, 20, 40 and then 60 minutes, or
    as soon as its Secret changes.
"""
