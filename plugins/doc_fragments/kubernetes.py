# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection options of the Kubernetes API; see argspec.KUBERNETES."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file, or its content as a mapping.
      - Without this option and O(host), the module uses the service account of the pod in which it
        runs, else the user's default kubeconfig.
      - Tokens, token files, client certificates, exec plugins, impersonation and proxies work as in
        kubectl. The only supported auth-provider is C(oidc), with the token that kubectl keeps in
        the file.
      - Can also be given by the environment variable E(K8S_AUTH_KUBECONFIG).
    type: raw
  context:
    description:
      - Context of the kubeconfig. Its current context by default.
      - Can also be given by the environment variable E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description:
      - URL of the Kubernetes API, such as V(https://10.0.0.1:6443). Replaces a kubeconfig.
      - Can also be given by the environment variable E(K8S_AUTH_HOST).
    type: str
  api_key:
    description:
      - Bearer token.
      - Can also be given by the environment variable E(K8S_AUTH_API_KEY).
    type: str
  ca_cert:
    description:
      - Path of the PEM certificates that verify the Kubernetes API.
      - Can also be given by the environment variable E(K8S_AUTH_SSL_CA_CERT).
    type: path
  client_cert:
    description:
      - Path of the client certificate, in PEM.
      - Can also be given by the environment variable E(K8S_AUTH_CERT_FILE).
    type: path
  client_key:
    description:
      - Path of the key of the client certificate, in PEM.
      - Can also be given by the environment variable E(K8S_AUTH_KEY_FILE).
    type: path
  verify_ssl:
    description:
      - Whether the certificate of the Kubernetes API is verified. The kubeconfig decides by
        default, and V(true) holds where it says nothing.
      - BMCs and other servers have the separate option C(validate_certs).
      - Can also be given by the environment variable E(K8S_AUTH_VERIFY_SSL).
    type: bool
  proxy:
    description:
      - URL of an HTTP proxy between this host and the Kubernetes API.
      - By default, E(HTTPS_PROXY), E(HTTP_PROXY) and E(NO_PROXY) decide as in kubectl, without a
        proxy for localhost and loopback addresses.
      - Can also be given by the environment variable E(K8S_AUTH_PROXY).
    type: str
  impersonate_user:
    description:
      - User to act as.
      - Can also be given by the environment variable E(K8S_AUTH_IMPERSONATE_USER).
    type: str
  impersonate_groups:
    description:
      - Groups to act as.
      - Can also be given by the environment variable E(K8S_AUTH_IMPERSONATE_GROUPS).
    type: list
    elements: str
requirements:
  - urllib3 >= 2.0
  - PyYAML >= 6.0
"""
