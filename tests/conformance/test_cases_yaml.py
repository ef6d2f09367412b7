# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of users that were misread: manifests, CA bundles and kubeconfigs."""

from __future__ import annotations

import ssl
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.manifests import read_file
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    Client,
    Target,
    Trust,
    visit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection.pem import accept_as_go
from support.certificates import issued, self_signed
from support.https_server import HttpsServer
from support.scripted_api import ScriptedApi, in_turn

CASES = Path(__file__).with_name("cases")
TYPES = CASES / "11-manifest-yaml-types"


def manifest(path: Path) -> t.Any:
    [found] = read_file(str(path))
    return found


def test_values_of_manifests_are_texts_where_kubectl_takes_texts() -> None:
    versions = manifest(TYPES / "crd.yaml")["spec"]["versions"]
    properties = versions[0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties["spec"]["properties"]["matchType"]["enum"] == ["!=", "=", "=~", "!~"]
    assert manifest(TYPES / "bmh.yaml")["spec"]["bootMACAddress"] == "52:54:00:12:34:56"
    assert manifest(TYPES / "date.yaml")["metadata"]["annotations"] == {"reviewed": "2026-03-01"}
    for name in ("date.yaml", "time.yaml"):
        assert manifest(TYPES / name)["data"] == {"window": "12:30"}


def test_a_kind_that_ends_in_list_is_an_object() -> None:
    found = manifest(CASES / "12-kind-ends-with-list" / "allowlist.yaml")
    assert (found["kind"], found["spec"]) == ("AllowList", {"cidrs": ["10.0.100.0/24"]})


@pytest.mark.parametrize("ca_cert", [None, "ca.pem", "bundle.pem"])
def test_a_bundle_with_names_is_loaded(ca_cert: str | None) -> None:
    folder = CASES / "13-ca-bundle-with-names"
    options = {"kubeconfig": str(folder / "kubeconfig")}
    if ca_cert:
        options["ca_cert"] = str(folder / ca_cert)
    kube = Kube.connect(options, patience_seconds=0.0)
    with pytest.raises(ApiError, match="refused"):
        kube.get("/version")


@pytest.mark.parametrize("given", ["authority", "server"])
def test_a_certificate_that_is_not_self_signed_is_an_authority(tmp_path: Path, given: str) -> None:
    """As for kubectl; python-base#136 and python#2160 of kubernetes-client are the reports."""
    authority = issued(self_signed(common_name="company"), "cluster")
    server = issued(authority)
    path = tmp_path / "ca.pem"
    path.write_text({"authority": authority, "server": server}[given].pem)
    with HttpsServer({"/version": {"major": "1"}}, certificate=server) as api:
        options = {"host": api.endpoint, "api_key": "t", "ca_cert": str(path)}
        assert Kube.connect(options).get("/version") == {"major": "1"}
        target = Target("bmc", api.endpoint, trust=Trust(ca_path=str(path)))
        assert visit([target], _version) == [{"major": "1"}]


async def _version(client: Client, target: Target) -> t.Any:
    return (await client.get_json("/version")).body


def test_authorities_are_no_stricter_than_those_of_kubectl() -> None:
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    accept_as_go(context)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_a_kubeconfig_of_this_host_goes_past_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (CASES / "17-proxy-and-loopback" / "kubeconfig").read_text(encoding="utf-8")
    with ScriptedApi(in_turn()) as proxy, HttpsServer({"/version": {"major": "1"}}) as server:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("https_proxy", proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "")
        path = tmp_path / "kubeconfig"
        path.write_text(text.replace("PORT", server.endpoint.rpartition(":")[2]))
        with pytest.warns():
            assert Kube.connect({"kubeconfig": str(path)}).get("/version") == {"major": "1"}
        assert proxy.asked == []
