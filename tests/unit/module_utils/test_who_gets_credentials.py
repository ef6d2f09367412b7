# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One test for each rule about recipients of passwords, with servers that record what arrives."""

from __future__ import annotations

import ssl
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    InvalidInput,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.credentials import (
    CredentialReference,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    trim_node_config,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import (
    PollTarget,
    given_targets,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.trust import (
    fetch_fingerprints,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe.pressure import read_pressure
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.models import read_models
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import SPEC as THERMAL
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.cluster import reconcile_objects
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon import info as rmd_info
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.reconciliation import SPEC as RMD
from support.bmc_client import basic
from support.certificates import Certificate, self_signed
from support.fake_pace import FakeTime
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Reply
from support.predictions import predict_nodes, predict_queries
from support.redfish_trees import ROOT, collection, one_server, temperature, thermal
from support.scripted_api import Asked, ScriptedApi, status_reply
from support.scripted_api import Reply as ApiReply
from support.scripted_bmc import Bmc
from support.snapshots import with_targets
from support.wao import node, node_config

PINNED = {"tls_fingerprint": [SHARED_CERTIFICATE.fingerprint]}
ADMIN = {"username": "admin", "password": "s3cr3t"}
MODEL = "/v2/models/m/infer"
PREDICTED: dict[str, Document] = {MODEL: {"outputs": [{"data": [100.0] * 21}]}}
Result = dict[str, t.Any]


def passwords(server: HttpsServer) -> int:
    """Number of requests that came with a credential."""
    return sum(header is not None for header in server.seen.authorizations)


def redfish(**options: t.Any) -> HttpsServer:
    return HttpsServer(one_server(thermal(temperature("Inlet", 22.0))), **options)


def snapshot_of(folder: Path, *configs: MutableObject) -> str:
    path = str(folder / "snapshot.json")
    nodes = [node(config["spec"]["nodeName"]) for config in configs]
    for each in nodes:
        each["status"]["capacity"] = {"cpu": "8"}
    body = {"cluster": {}, "nodes": nodes, "node_configs": configs}
    documents.write(path, "snapshot", with_targets(body))
    return path


def bmc_config(
    name: str, endpoint: str, namespace: str, secret: str = "", **meta: t.Any
) -> MutableObject:
    config = node_config(f"c-{name}", name, namespace=namespace, **meta)
    term = {"type": "Redfish", "endpoint": endpoint, "basicAuthSecret": {"name": secret}}
    config["spec"]["metricsCollector"]["inletTemp"] = term
    return config


class TestPowerAccounts:
    """The account that reads a machine of a NodeConfig never switches it."""

    def switch(self, folder: Path, **options: t.Any) -> tuple[Result, list[str | None]]:
        """The result, and the credentials that came with a reset."""
        bmc = Bmc()
        with HttpsServer(bmc.tree, answer=bmc.answer) as server:
            annotations = options.pop("annotations", {})
            config = bmc_config("own", server.endpoint, "tenant", "reader", annotations=annotations)
            entries = {"tenant/reader": ADMIN, **options.pop("credentials", {})}
            given = {"snapshot": snapshot_of(folder, config), "state": "off", **PINNED, **options}
            result = switch_power({"credentials": entries, **given}, Context(), FakeTime().pace)
        return result, [post.headers.get("Authorization") for post in bmc.posts]

    def test_without_an_account_for_changes_nothing_is_sent(self, tmp_path: Path) -> None:
        result, sent = self.switch(tmp_path)
        [error] = result["errors"]
        assert (error["reason"], sent) == ("credential", [])
        assert "wattwise.github.io/power-secret" in error["detail"]

    def test_the_annotation_names_a_secret_of_its_own_namespace(self, tmp_path: Path) -> None:
        account = {"username": "operator", "password": "0ther"}
        named = {"wattwise.github.io/power-secret": "switcher"}
        result, sent = self.switch(
            tmp_path, annotations=named, credentials={"tenant/switcher": account}
        )
        assert result["errors"] == []
        assert sent == [basic(**account)["Authorization"]]
        assert account["password"] not in str(result)

    def test_the_entry_power_is_for_namespaces_that_the_user_names(self, tmp_path: Path) -> None:
        account = {"username": "operator", "password": "0ther"}
        result, sent = self.switch(tmp_path, credentials={"power": account})
        assert (result["errors"][0]["reason"], sent) == ("credential", [])
        result, sent = self.switch(
            tmp_path,
            credentials={"power": account},
            default_credential_namespaces=["tenant"],
        )
        assert (result["errors"], sent) == ([], [basic(**account)["Authorization"]])


class TestDefault:
    """The entry ``default`` is for NodeConfigs of the namespaces that the user names."""

    def read(self, folder: Path, account: tuple[str, str] | None, **options: t.Any) -> Result:
        with redfish(account=account) as own, redfish(account=account) as other:
            path = snapshot_of(
                folder,
                bmc_config("own", own.endpoint, "wao-system"),
                bmc_config("other", other.endpoint, "tenant"),
            )
            given = {"snapshot": path, "gather": ["inlet"], **PINNED, **options}
            result = read_thermal({"credentials": {"default": ADMIN}, **given}, Context())
            told = {"own": passwords(own), "other": passwords(other), "asked": other.total}
            return {**result, "told": told}

    def test_it_goes_to_no_node_config_of_a_namespace_that_is_not_allowed(
        self, tmp_path: Path
    ) -> None:
        result = self.read(tmp_path, None, default_credential_namespaces=["wao-system"])
        assert result["told"]["own"] > 0
        assert result["told"]["other"] == 0

    def test_without_a_namespace_it_goes_to_no_node_config(self, tmp_path: Path) -> None:
        told = self.read(tmp_path, None)["told"]
        assert (told["own"], told["other"]) == (0, 0)

    def test_a_machine_that_wants_no_account_is_read_all_the_same(self, tmp_path: Path) -> None:
        result = self.read(tmp_path, None, default_credential_namespaces=["wao-system"])
        assert [each["name"] for each in result["readings"]] == ["other", "own"]

    def test_a_machine_that_wants_one_is_an_error_which_says_why_it_got_none(
        self, tmp_path: Path
    ) -> None:
        account = (ADMIN["username"], ADMIN["password"])
        result = self.read(tmp_path, account, default_credential_namespaces=["wao-system"])
        assert [each["name"] for each in result["readings"]] == ["own"]
        (error,) = result["errors"]
        assert (error["name"], error["reason"]) == ("other", "credential")
        assert "namespace tenant" in error["detail"]
        assert "default_credential_namespaces" in error["detail"]
        assert result["told"]["asked"] > 0

    def test_a_target_of_the_user_has_it_in_any_case(self) -> None:
        with redfish() as server:
            target = {"name": "n", "endpoint": server.endpoint}
            given = {"targets": [target], "credentials": {"default": ADMIN}, **PINNED}
            read_thermal({**given, "gather": ["inlet"]}, Context())
            assert passwords(server) > 0


class TestPlainHttp:
    """No credential goes over plain HTTP unless the user allows it, with one warning."""

    SENTENCE = "The passwords for 2 targets go over plain HTTP"

    def ask(self, kind: str, endpoints: list[str], allowed: bool, ours: bool) -> Result:
        """``ours``: the permission is set at each target."""
        whose = {"allow_plain_http": allowed}
        targets: list[Result] = [
            {
                "name": f"n{number}",
                "endpoint": endpoint,
                **ADMIN,
                **(whose if ours and kind != "model" else {}),
            }
            for number, endpoint in enumerate(endpoints)
        ]
        given: Result = {"targets": targets, **({} if ours else whose)}
        warnings: list[str] = []
        context = Context(warn=warnings.append)
        if kind == "model":
            point = {"cpu_capacity": 8.0, "inlet_celsius": 22.0, "delta_p_pascal": 8.0}
            queries = [{**one, "endpoint": one["endpoint"] + MODEL, **point} for one in targets]
            result = predict_queries(queries, context, **whose)
        elif kind == "rmd":
            daemons = [{key: one[key] for key in ("name", "endpoint")} for one in targets]
            result = rmd_info.read_daemons({**whose, **ADMIN, "targets": daemons}, context)
        else:
            read = {"bmc": read_thermal, "pressure": read_pressure}[kind]
            result = read(given, context)
        return {**result, "warnings": warnings}

    @pytest.mark.parametrize("kind", ["bmc", "pressure", "model", "rmd"])
    @pytest.mark.parametrize("ours", [True, False])
    def test_it_is_an_error_and_nothing_is_sent(self, kind: str, ours: bool) -> None:
        with HttpsServer({}, certificate=None) as server:
            result = self.ask(kind, [server.endpoint], allowed=False, ours=ours)
            assert server.total == 0
        (error,) = result["errors"]
        assert error["reason"] == "credential"
        assert "http://" in error["detail"] and "allow_plain_http" in error["detail"]
        assert "s3cr3t" not in str(result)
        assert result["warnings"] == []

    @pytest.mark.parametrize("kind", ["bmc", "pressure", "model", "rmd"])
    @pytest.mark.parametrize("ours", [True, False])
    def test_where_it_is_allowed_one_warning_has_the_number(self, kind: str, ours: bool) -> None:
        with (
            HttpsServer(PREDICTED, certificate=None) as one,
            HttpsServer(PREDICTED, certificate=None) as two,
        ):
            result = self.ask(kind, [one.endpoint, two.endpoint], allowed=True, ours=ours)
            assert passwords(one) > 0 and passwords(two) > 0
        (warning,) = result["warnings"]
        assert warning.startswith(self.SENTENCE)

    def test_without_a_credential_nothing_changes(self) -> None:
        with HttpsServer(PREDICTED, certificate=None) as server:
            query = {"name": "n", "endpoint": server.endpoint + MODEL, "cpu_capacity": 8.0}
            asked = {**query, "inlet_celsius": 22.0, "delta_p_pascal": 8.0}
            assert predict_queries([asked])["errors"] == []

    @pytest.mark.parametrize("value", ["true", "allow_plain_http"])
    def test_a_node_config_cannot_allow_it(self, tmp_path: Path, value: str) -> None:
        with redfish(certificate=None) as server:
            annotations = {"wattwise.github.io/allow-plain-http": value}
            config = bmc_config("n", server.endpoint, "tenant", "s", annotations=annotations)
            config["spec"]["metricsCollector"]["inletTemp"]["allow_plain_http"] = True
            result = read_thermal(
                {"snapshot": snapshot_of(tmp_path, config), "credentials": {"tenant/s": ADMIN}}
            )
            assert server.total == 0
        assert [error["reason"] for error in result["errors"]] == ["credential"]


class TestSecretsAreTheirNamespaces:
    """A NodeConfig has only the Secrets of its own namespace."""

    @pytest.mark.parametrize(
        "name",
        ["../../wao-system/secrets/bmc", "..", "bmc?x=1", "a/b", "wao-system/bmc", "%2e%2e"],
    )
    @pytest.mark.parametrize("kind", ["bmc", "model"])
    def test_a_name_that_leads_elsewhere_is_not_asked_for(
        self, tmp_path: Path, name: str, kind: str
    ) -> None:
        asked: list[str] = []

        def refuse(request: Asked) -> ApiReply:
            asked.append(request.path)
            return status_reply(404, "not found")

        config = bmc_config("n", "https://127.0.0.1:1", "tenant", name)
        model = {"type": "", "endpoint": "", "basicAuthSecret": {"name": name}}
        provider = {"type": "Redfish", "endpoint": "https://127.0.0.1:1"}
        config["spec"]["predictor"] = {
            "powerConsumption": model,
            "powerConsumptionEndpointProvider": provider,
        }
        path = snapshot_of(tmp_path, config)
        with ScriptedApi(refuse) as api:
            if kind == "bmc":
                result = read_thermal({"snapshot": path, "host": api.url})
            else:
                named = {"type": "V2InferenceProtocol", "endpoint": f"https://127.0.0.1:1{MODEL}"}
                result = predict(path, [named], host=api.url)
        assert not [path for path in asked if "secrets" in path]
        assert len(result["errors"]) == 1

    def test_an_entry_stands_in_for_the_secret_of_its_namespace_only(self, tmp_path: Path) -> None:
        with redfish() as own, redfish() as other:
            path = snapshot_of(
                tmp_path,
                bmc_config("own", own.endpoint, "wao-system", "bmc"),
                bmc_config("other", other.endpoint, "tenant", "bmc"),
            )
            with ScriptedApi(lambda _asked: status_reply(404, "not found")) as api:
                result = read_thermal(
                    {
                        "snapshot": path,
                        "credentials": {"wao-system/bmc": ADMIN, "default": ADMIN, "bmc": ADMIN},
                        "default_credential_namespaces": ["wao-system", "tenant"],
                        "host": api.url,
                        "gather": ["inlet"],
                        **PINNED,
                    }
                )
            assert passwords(own) > 0
            assert other.total == 0
        (error,) = result["errors"]
        assert "tenant/bmc does not exist" in error["detail"]


READING = {"inlet_celsius": 22.0, "delta_p_pascal": 8.0}


def predict(snapshot: str, named: list[MutableObject], **options: t.Any) -> Result:
    """Predictions for n, n1, … whose machines name these models."""
    names = [config["spec"]["nodeName"] for config in _configs(snapshot)]
    readings = {name: dict(READING) for name in names}
    models = [
        {"name": name, "power_consumption": one} for name, one in zip(names, named, strict=False)
    ]
    body = documents.load(snapshot, "snapshot")
    return predict_nodes(body, readings, models, **{**PINNED, **options})


def _configs(snapshot: str) -> list[MutableObject]:
    found: list[MutableObject] = documents.load(snapshot, "snapshot")["node_configs"]
    return found


class TestModelsThatMachinesName:
    """A machine that names its model does not choose the recipient of the model's password."""

    def config(self, name: str, namespace: str, secret: str, endpoint: str = "") -> MutableObject:
        config = node_config(f"c-{name}", name, namespace=namespace)
        kind = "V2InferenceProtocol" if endpoint else ""
        secret_name = {"name": secret}
        predictor: MutableObject = {
            "powerConsumption": {
                "type": kind,
                "endpoint": endpoint,
                "basicAuthSecret": secret_name,
            }
        }
        if not endpoint:
            provider = {"type": "Redfish", "endpoint": "https://127.0.0.1:1"}
            predictor["powerConsumptionEndpointProvider"] = provider
        config["spec"]["predictor"] = predictor
        return config

    def predict(
        self, folder: Path, *more: Callable[[str], MutableObject], **options: t.Any
    ) -> tuple[Result, int]:
        with HttpsServer(PREDICTED) as server:
            configs = [self.config("n", "wao-system", "models")]
            configs += [make(server.endpoint + MODEL) for make in more]
            named = {"type": "V2InferenceProtocol", "endpoint": server.endpoint + MODEL}
            if options.get("model_origins") == "that":
                options["model_origins"] = [server.endpoint]
            entries = {"wao-system/models": ADMIN, "wao-system/a": ADMIN, "tenant/models": ADMIN}
            path = snapshot_of(folder, *configs)
            result = predict(path, [named], credentials=entries, **options)
            return result, passwords(server)

    def test_the_secret_is_not_sent_there(self, tmp_path: Path) -> None:
        result, told = self.predict(tmp_path)
        (error,) = result["errors"]
        assert (error["name"], error["reason"], told) == ("n", "credential", 0)
        assert "wao-system/models" in error["detail"] and "model_origins" in error["detail"]

    def test_also_where_a_node_config_names_the_server_with_another_secret(
        self, tmp_path: Path
    ) -> None:
        result, told = self.predict(tmp_path, lambda url: self.config("o", "wao-system", "a", url))
        assert [error["name"] for error in result["errors"]] == ["n"]
        assert told == 1

    def test_also_where_another_namespace_names_the_server_with_its_secret(
        self, tmp_path: Path
    ) -> None:
        result, told = self.predict(tmp_path, lambda url: self.config("o", "tenant", "models", url))
        assert [error["name"] for error in result["errors"]] == ["n"]
        assert told == 1

    def test_it_is_where_a_node_config_beside_it_names_both(self, tmp_path: Path) -> None:
        result, told = self.predict(
            tmp_path, lambda url: self.config("o", "wao-system", "models", url)
        )
        assert result["errors"] == []
        assert told >= 1

    def test_it_is_where_the_user_allows_the_origin(self, tmp_path: Path) -> None:
        result, told = self.predict(tmp_path, model_origins="that")
        assert (result["errors"], told) == ([], 1)

    @pytest.mark.parametrize("origin", ["models.example", "https://h/v2", "https://u:p@h", ""])
    def test_an_origin_is_checked(self, tmp_path: Path, origin: str) -> None:
        with pytest.raises(InvalidInput, match="model_origins"):
            self.predict(tmp_path, model_origins=[origin])


class TestOtherOrigins:
    """A server cannot send a credential on to another one."""

    @pytest.mark.parametrize("way", ["redirect", "member", "next", "slashes"])
    def test_what_a_machine_points_to_elsewhere_is_not_asked(self, way: str) -> None:
        with redfish() as stranger, HttpsServer({}) as server:
            beside = stranger.endpoint.partition("://")[2]
            systems: dict[str, Document] = {
                "redirect": Reply(307, headers={"Location": f"{stranger.endpoint}{ROOT}/Systems"}),
                "member": collection(f"{stranger.endpoint}{ROOT}/Systems/1"),
                "next": {"Members": [], "Members@odata.nextLink": f"{stranger.endpoint}{ROOT}/x"},
                "slashes": collection(f"//{beside}{ROOT}/Systems/1"),
            }
            server.documents = {f"{ROOT}/Systems": systems[way]}
            target = {"name": "n", "endpoint": server.endpoint, **ADMIN}
            result = read_models({"targets": [target], **PINNED})
            assert (stranger.total, len(result["errors"])) == (0, 1)
            assert passwords(server) > 0

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_the_cluster_s_token_follows_no_redirect(self, status: int) -> None:
        """An API server passes answers of extension servers on, redirects included."""
        with redfish(certificate=None) as stranger, HttpsServer({}, certificate=None) as server:
            location = {"Location": f"{stranger.endpoint}{ROOT}"}
            server.documents = {"/apis/metrics.k8s.io": Reply(status, headers=location)}
            kube = Kube.connect({"host": server.endpoint, "api_key": "token"})
            with pytest.raises(ApiError):
                kube.get("/apis/metrics.k8s.io")
            assert (server.seen.authorizations, stranger.total) == (["Bearer token"], 0)

    def test_pins_of_a_node_s_machine_hold_for_no_server_of_another_origin(
        self, tmp_path: Path
    ) -> None:
        """Otherwise its key would let a machine impersonate that server."""
        pins = {"wattwise.github.io/tls-fingerprint": SHARED_CERTIFICATE.fingerprint}
        with redfish() as own, redfish() as other:
            config = bmc_config("n", own.endpoint, "wao-system", annotations=pins)
            provider = {"type": "Redfish", "endpoint": other.endpoint}
            config["spec"]["predictor"] = {"powerConsumptionEndpointProvider": provider}
            path = snapshot_of(tmp_path, config)
            assert read_thermal({"snapshot": path, "gather": ["inlet"]})["errors"] == []
            (error,) = read_models({"snapshot": path})["errors"]
            assert (error["reason"], other.total) == ("tls", 0)


class Asking(Certificate):
    """The certificate of a server that requests its client's, and records it."""

    def server_context(self) -> ssl.SSLContext:
        context = super().server_context()
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=CLIENT.pem)
        context.sslobject_class = _Keeping
        return context


class _Keeping(ssl.SSLObject):
    shown: t.ClassVar[list[bytes | None]] = []

    def do_handshake(self) -> None:
        super().do_handshake()
        self.shown.append(self.getpeercert(True))


CLIENT = self_signed(["wattwise"], "wattwise")
OURS, STRANGER = (Asking(made.certificate, made.key) for made in (self_signed(), self_signed()))


class TestDaemons:
    """Anyone may give a pod the label of RMD daemons, so its address proves nothing."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Result:
        private = CLIENT.key.private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
        )
        (tmp_path / "client.pem").write_bytes(private + CLIENT.pem.encode())
        (tmp_path / "ca.pem").write_text(OURS.pem)
        _Keeping.shown.clear()
        return {
            "client_cert": str(tmp_path / "client.pem"),
            "ca_path": str(tmp_path / "ca.pem"),
            "tls_server_name": "localhost",
        }

    def reconcile(
        self, pods: list[MutableObject], namespace: str = "rmd", client: MutableObject | None = None
    ) -> Result:
        one = node("n1")
        one["metadata"]["uid"] = "uid-n1"
        objects = {"nodes": [one], "rmd_pods": pods}
        objects |= {"rmd_workloads": [], "rmd_configs": [], "rmd_node_states": []}
        options = {"namespace": namespace, "daemons": client or {}, "run_dir": "unused"}
        return reconcile_objects(objects, RMD.complete(options)).result

    def pod(self, namespace: str, port: int) -> MutableObject:
        container = {"name": "rmd", "ports": [{"containerPort": port}]}
        return {
            "metadata": {"name": "rmd", "namespace": namespace, "labels": {"name": "rmd-pod"}},
            "spec": {"nodeName": "n1", "containers": [container]},
            "status": {
                "podIP": "127.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def test_a_pod_of_another_namespace_is_never_asked(self) -> None:
        with HttpsServer({}, certificate=None) as server:
            pods = [self.pod("tenant", server.port)]
            assert self.reconcile(pods)["daemons"] == 0
            assert server.total == 0
            self.reconcile([self.pod("rmd", server.port)])
            assert server.total > 0
            asked = server.total
            self.reconcile(pods, namespace="tenant")
            assert server.total > asked

    def test_a_password_goes_to_no_pod_over_plain_http(self) -> None:
        with HttpsServer({}, certificate=None) as server:
            result = self.reconcile([self.pod("rmd", server.port)], client=ADMIN)
            assert server.total == 0
        assert [error["reason"] for error in result["errors"]] == ["credential"]

    def test_a_client_certificate_is_shown_to_no_server_of_another_authority(
        self, files: Result
    ) -> None:
        for certificate, shown in ((STRANGER, []), (OURS, [CLIENT.der])):
            with HttpsServer({}, certificate=certificate) as server:
                target = {"name": "n", "endpoint": server.endpoint}
                rmd_info.read_daemons({"targets": [target], **files, **ADMIN})
                assert set(_Keeping.shown) == set(shown)
                assert (server.total > 0) is bool(shown)

    def test_nor_to_a_server_of_ours_with_another_name(self, files: Result) -> None:
        with HttpsServer({}, certificate=OURS) as server:
            target = {"name": "n", "endpoint": server.endpoint}
            given = {"targets": [target], **files, "tls_server_name": "rmd-nameserver"}
            (error,) = rmd_info.read_daemons(given)["errors"]
            assert (error["reason"], server.total, _Keeping.shown) == ("tls", 0, [])


class TestPasswordsInText:
    """No message, result or printed object contains a password."""

    URLS = (
        "https://root:s3cr3t@127.0.0.1",
        "https://root:s3cr3t@127.0.0.1:70000",
        "https://root:s3c/s3cr3t@127.0.0.1",
        "https://s3cr3t@[::1",
        "//root:s3cr3t@h",
        "ftp://root:s3cr3t@h",
        "root:s3cr3t@h",
    )

    def test_objects_hide_them(self) -> None:
        named = CredentialReference("admin", "s3cr3t")
        assert "s3cr3t" not in repr(named)
        machine = PollTarget("n", "https://h", "Redfish", "targets[0]", named)
        assert "s3cr3t" not in repr(machine)

    def test_a_machine_holds_nothing_of_its_target_but_how_to_verify_it(self) -> None:
        target = {"name": "n", "endpoint": "https://h", **ADMIN, "validate_certs": True}
        parameters = THERMAL.complete({"targets": [target]})
        (machine,) = given_targets(parameters, "Redfish", "inlet_temp")
        assert "s3cr3t" not in repr(machine)
        assert machine.tls["validate_certs"] is True

    def test_those_inside_an_endpoint_are_in_no_snapshot(self) -> None:
        config = bmc_config("n", "https://root:s3cr3t@127.0.0.1", "wao-system")
        trimmed = trim_node_config(config)
        assert "s3cr3t" not in str(trimmed)
        term = trimmed["spec"]["metricsCollector"].pop("inletTemp")
        assert term["endpoint"] == "https://***@127.0.0.1"
        del config["spec"]["metricsCollector"]["inletTemp"]
        assert trimmed == config

    @pytest.mark.parametrize("url", URLS)
    def test_those_inside_an_endpoint_are_shown_nowhere(self, tmp_path: Path, url: str) -> None:
        config = bmc_config("n", url, "wao-system")
        config["spec"]["predictor"]["powerConsumption"] = {
            "type": "V2InferenceProtocol",
            "endpoint": url + MODEL,
        }
        config["spec"]["metricsCollector"]["deltaP"] = {
            "type": "DifferentialPressureAPI",
            "endpoint": url,
        }
        target = {"targets": [{"name": "n", "endpoint": url}]}
        point = {"cpu_capacity": 8.0, "inlet_celsius": 22.0, "delta_p_pascal": 8.0}
        query = {"name": "n", "endpoint": url + MODEL, **point}
        path = snapshot_of(tmp_path, config)
        results = [
            *(read(given) for read in (read_thermal, read_pressure, read_models) for given in
              (target, {"snapshot": path})),
            fetch_fingerprints(target),
            rmd_info.read_daemons(target),
            predict_queries([query]),
            predict(path, []),
        ]  # fmt: skip
        for result in results:
            assert "s3cr3t" not in str(result)
        assert sum(bool(result["errors"]) for result in results) == len(results) - 1
