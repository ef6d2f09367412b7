# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that say how to reach the Kubernetes API; see argspec.KUBERNETES."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file, or the content of one as a mapping.
      - Without this option and O(host), the service account of the pod in which the module runs is
        used, else the user's default kubeconfig.
      - Kubeconfigs are read as kubectl reads them, with tokens and files of tokens, client
        certificates, exec plugins, impersonation and proxies. Of the auth-providers only C(oidc) is
        known, with the token that kubectl keeps in the file.
      - Can also be given by the environment variable E(K8S_AUTH_KUBECONFIG).
    type: raw
  context:
    description:
      - Context of the kubeconfig to use; its current context by default.
      - Can also be given by the environment variable E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description:
      - URL of the Kubernetes API, such as V(https://10.0.0.1:6443), in place of a kubeconfig.
      - Can also be given by the environment variable E(K8S_AUTH_HOST).
    type: str
  api_key:
    description:
      - Bearer token.
      - Can also be given by the environment variable E(K8S_AUTH_API_KEY).
    type: str
  ca_cert:
    description:
      - Path of the certificates, in PEM, that the Kubernetes API's certificate is verified with.
      - Can also be given by the environment variable E(K8S_AUTH_SSL_CA_CERT).
    type: path
  client_cert:
    description:
      - Path of a client certificate, in PEM.
      - Can also be given by the environment variable E(K8S_AUTH_CERT_FILE).
    type: path
  client_key:
    description:
      - Path of the client certificate's key, in PEM.
      - Can also be given by the environment variable E(K8S_AUTH_KEY_FILE).
    type: path
  verify_ssl:
    description:
      - Whether the certificate of the Kubernetes API is verified. What the kubeconfig says by
        default, which is V(true) unless it says otherwise.
      - The certificates of machines have an option of their own, so that one group of module
        defaults can set both.
      - Can also be given by the environment variable E(K8S_AUTH_VERIFY_SSL).
    type: bool
  proxy:
    description:
      - URL of an HTTP proxy between this host and the Kubernetes API.
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
