# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power draw of pods from Kepler and from Prometheus, over real sockets."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import random
import typing as t
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import readings_of
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import metering
from support.certificates import Mutual, self_signed
from support.examples import each_seed
from support.https_server import SHARED_CERTIFICATE, HttpsServer
from support.https_server import Reply as ServerReply
from support.kepler_exporter import (
    RECORDED,
    Load,
    MeteredNode,
    cluster,
    exporter,
    prometheus,
    running,
    vector_reply,
    vectors,
)
from support.odd_answers import assert_fit_for_documents, odd_reply
from support.odd_values import TEXTS, bounded, odd_value, spoilt
from support.scripted_api import Asked, Reply, ScriptedApi

Json = dict[str, t.Any]

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
N1 = MeteredNode("n1", (Load("u1", "shop", "web-1", 3.0), Load("u2", "db", "pg-0", 1.0)))
N2 = MeteredNode("n2", (Load("u3", "shop", "web-2", 2.0),), package=60.0, dram=5.0)


def at(seconds: float, warn: t.Callable[[str], None] = lambda _text: None) -> Context:
    moment = NOON + datetime.timedelta(seconds=seconds)
    return Context(now=lambda: moment, warn=warn)


def metered(
    snapshot: Json,
    readings: Json | None = None,
    context: Context = at(0.0),
    previous: Json | None = None,
    host: str = "http://127.0.0.1:9",
    nodes: t.Collection[str] | None = None,
    **options: t.Any,
) -> metering.Metering:
    """The metering; its body is a document that follows the schema."""
    complete = metering.SPEC.complete(options)
    kube = Kube.connect({"host": host, "api_key": "token"})
    last = metering.LastMetering.from_document(previous, context.now())
    found = metering.meter(
        complete, snapshot, readings_of({"readings": readings or {}}), context, kube, last, nodes
    )
    head = {"document": "wattwise.kube/metering/v1", "time": "2026-01-31T12:00:00Z"}
    documents.check({**found.as_document(), **head}, "metering", "metering")
    return found


@contextlib.contextmanager
def exporters(*nodes: MeteredNode, **options: t.Any) -> Iterator[list[Json]]:
    with contextlib.ExitStack() as stack:
        yield [
            {"name": node.name, "endpoint": stack.enter_context(exporter(node, **options)).url}
            for node in nodes
        ]


def package_watts(found: metering.Metering) -> dict[str, float]:
    return {pod.name: zones["package"] for pod, zones in found.pods.items()}


ALL = {"web-1": 30.0, "pg-0": 10.0, "web-2": 12.0}


def test_watts_of_pods_have_the_names_of_the_cluster_and_the_node_s_difference() -> None:
    readings = {
        "n1": {"power_watts": 150.0, "source": {"power_watts": "read"}},
        "n2": {"power_watts": 150.0, "source": {"power_watts": "last"}},
    }
    with exporters(N1, N2) as targets:
        body = metered(cluster(N1, N2), readings, source="kepler", targets=targets).as_document()
    assert body["pods"][0] == {
        "namespace": "db",
        "pod": "pg-0",
        "uid": "u2",
        "node": "n1",
        "workload_kind": "Deployment",
        "workload": "pg",
        "package_watts": 10.0,
        "dram_watts": 1.0,
        "cpu_cores": None,
    }
    assert body["nodes"] == {
        "n1": {
            "package_watts": 100.0,
            "dram_watts": 10.0,
            "rapl_watts": 110.0,
            "measured_watts": 150.0,
            "difference_watts": 40.0,
        },
        # The BMC's value is older, so it is not compared.
        "n2": {
            "package_watts": 60.0,
            "dram_watts": 5.0,
            "rapl_watts": 65.0,
            "measured_watts": None,
            "difference_watts": None,
        },
    }
    assert (body["left_out"], body["errors"]) == (0, [])


def test_a_run_of_some_nodes_asks_and_tells_of_these_alone() -> None:
    """Duplicate series of n1 do not affect a run of n2."""
    snapshot, some = cluster(N1, N2), {"n2"}
    with exporter(N1) as other, exporter(N2) as own, prometheus(N1, N1, N2) as server:
        targets = [{"name": "n1", "endpoint": other.url}, {"name": "n2", "endpoint": own.url}]
        asked: list[Json] = [
            {"source": "kepler", "targets": targets},
            {"source": "prometheus", "url": server.url},
        ]
        for options in asked:
            found = metered(snapshot, nodes=some, **options)
            assert found.nodes.keys() == some and package_watts(found) == {"web-2": 12.0}
            assert (found.left_out, found.errors) == (0, [])
            assert found.cores_by_uid.keys() <= {"u3"}
        assert other.asked == []


def test_prometheus_gives_the_same_watts_as_kepler() -> None:
    with exporters(N1, N2) as targets, prometheus(N1, N2) as server:
        snapshot = cluster(N1, N2)
        one = metered(snapshot, source="kepler", targets=targets)
        other = metered(snapshot, source="prometheus", url=server.url)
        assert [asked.headers.get("Authorization") for asked in server.asked] == [None] * 5
    assert other.cores_by_uid == {"u1": 3.0, "u2": 1.0, "u3": 2.0}
    assert one.pods == other.pods
    assert one.nodes == other.nodes
    assert package_watts(one) == ALL


def test_keplers_that_ask_for_a_client_certificate_are_shown_it(tmp_path: Path) -> None:
    client = self_signed(["prometheus"], "client")
    server = Mutual(SHARED_CERTIFICATE.certificate, SHARED_CERTIFICATE.key, client)
    for name, text in (("tls.crt", client.pem), ("tls.key", client.key_pem)):
        (tmp_path / name).write_text(text)
    (tmp_path / "ca.crt").write_text(SHARED_CERTIFICATE.pem)
    (tmp_path / "both.pem").write_text(client.key_pem + client.pem)
    reply = ServerReply(body=N1.text().encode())
    with HttpsServer({"/metrics": reply}, certificate=server) as kepler:
        given: Json = {
            "source": "kepler",
            "targets": [{"name": "n1", "endpoint": kepler.endpoint}],
            "ca_path": str(tmp_path / "ca.crt"),
        }
        certificates: list[Json] = [
            {"client_cert": str(tmp_path / "tls.crt"), "client_key": str(tmp_path / "tls.key")},
            {"client_cert": str(tmp_path / "both.pem")},
        ]
        for shown in certificates:
            found = metered(cluster(N1), **given, **shown)
            assert found.nodes == {"n1": {"package": 100.0, "dram": 10.0}}, found.errors
        [refused] = metered(cluster(N1), **given).errors
        assert refused.reason in ("tls", "unreachable")
        [missing] = metered(cluster(N1), **given, client_cert=str(tmp_path / "none.pem")).errors
    assert (missing.reason, "none.pem" in missing.detail) == ("tls", True)


DIES = tuple(f"package-{socket}-die-{die}" for socket in (0, 1) for die in (0, 1))


@pytest.mark.parametrize(
    ("packages", "drams"),
    [
        (DIES, ("dram",)),
        (DIES, ("dram-0", "dram-1")),
        (("package-0", "package-1"), ("dram",)),
        (("package-0-die-0", "package-1"), ("dram-0-die-0", "dram-0-die-1")),
        (("package",), ()),
    ],
)
def test_zones_of_sockets_and_dies_are_added_up_from_both_sources(
    packages: tuple[str, ...], drams: tuple[str, ...]
) -> None:
    node = dataclasses.replace(N1, packages=packages, drams=drams)
    with exporter(node) as own, prometheus(node) as server:
        asked: list[Json] = [
            {"source": "kepler", "targets": [{"name": "n1", "endpoint": own.url}]},
            {"source": "prometheus", "url": server.url},
        ]
        for options in asked:
            found = metered(cluster(node), **options)
            memory = {"dram": 10.0} if drams else {}
            assert found.nodes == {"n1": {"package": 100.0, **memory}}
            assert package_watts(found) == {"web-1": 30.0, "pg-0": 10.0}
            assert found.errors == []


# Zones beside core and psys, and the beginning of the error.
NO_PACKAGE: list[tuple[tuple[str, ...], tuple[str, ...], str]] = [
    ((), (), "its metrics have no zone package, only 'core', 'psys'; parts of a processor and"),
    ((), ("dram",), "only 'core', 'dram', 'psys'; parts of"),
    (("vdd_cpu_cv",), (), "only 'core', 'psys', 'vdd_cpu_cv'; "),
    (("cpu_power", "io_power"), ("power_meter_power1",), "'core', 'cpu_power', 'io_power', 'powe"),
    (("a", "b", "c", "d"), (), "only 'a', 'b', 'c', 'core' and 2 more; "),
    (("package-x",), (), "only 'core', 'package-x', 'psys';"),
    (("package-0-die",), (), "only 'core', 'package-0-die', 'psys';"),
    (("mypackage-0", "package_0"), (), "only 'core', 'mypackage-0', 'package_0', 'psys';"),
    (("package", "package-0-die-0"), (), "the zones package and package-0-die-0, which overlap"),
    (("package-1", "package-1-die-1"), (), "the zones package-1 and package-1-die-1, which over"),
    (("package",), ("dram", "dram-0"), "the zones dram and dram-0, which overlap"),
]


@pytest.mark.parametrize(("packages", "drams", "error"), NO_PACKAGE)
def test_other_zones_without_a_package_are_an_error_that_names_them(
    packages: tuple[str, ...], drams: tuple[str, ...], error: str
) -> None:
    node = dataclasses.replace(N1, packages=packages, drams=drams)
    with exporter(node) as own, prometheus(node, N2) as server, exporter(N2) as other:
        targets = [{"name": "n1", "endpoint": own.url}, {"name": "n2", "endpoint": other.url}]
        asked: list[Json] = [
            {"source": "kepler", "targets": targets},
            {"source": "prometheus", "url": server.url},
        ]
        for options in asked:
            found = metered(cluster(node, N2), **options)
            [told] = found.errors
            assert told.name == "n1" and error in told.detail
            assert found.nodes.keys() == {"n2"} and package_watts(found) == {"web-2": 12.0}
            assert all(one.namespace == "shop" for part in found.energy for one in part.joules)


def test_nodes_with_names_of_another_kind_are_told_to_be_so() -> None:
    with prometheus(MeteredNode("10.0.0.1:9102", N1.loads)) as server:
        found = metered(cluster(N1), source="prometheus", url=server.url, labels={"a": 'x"'})
        assert all("a%3D%22x%5C%22%22" in asked.path for asked in server.asked)
    assert (found.pods, found.left_out) == ({}, 2)
    assert "must be the name of the Node" in found.errors[0].detail


def test_the_pods_of_kepler_are_found_by_their_label() -> None:
    with exporters(N1) as [target]:
        port = int(target["endpoint"].rpartition(":")[2])

        def pod(name: str, node: str, address: t.Any, ready: str = "True") -> Json:
            conditions = [{"type": "Ready", "status": ready}]
            return {
                "metadata": {"name": name},
                "spec": {"nodeName": node},
                "status": {"podIP": address, "conditions": conditions},
            }

        pods = [
            pod("old", "n1", "127.0.0.9", "False"),
            pod("new", "n1", "127.0.0.1"),
            pod("starting", "n2", None),
            pod("odd", "n2", "127.0.0.1/../x"),
        ]
        with ScriptedApi(lambda _asked: Reply({"kind": "PodList", "items": pods})) as api:
            found = metered(cluster(N1, N2), source="kepler", host=api.url, port=port)
            [asked] = api.asked
    assert asked.path.startswith("/api/v1/namespaces/kepler/pods?")
    assert "labelSelector=app.kubernetes.io%2Fname%3Dkepler" in asked.path
    assert package_watts(found) == {"web-1": 30.0, "pg-0": 10.0}
    assert found.errors == []


def test_an_older_kepler_gives_watts_from_the_second_run_on() -> None:
    now = [0.0]
    warnings: list[str] = []
    with exporters(N1, clock=lambda: now[0], old=True) as targets:

        def run(previous: Json | None) -> metering.Metering:
            context = at(now[0], warnings.append)
            options: Json = {"source": "kepler", "targets": targets}
            return metered(cluster(N1), context=context, previous=previous, **options)

        first = run(None)
        now[0] = 60.0
        second = run(first.as_document())
        now[0] = 60.0 + 3601.0
        too_late = run(second.as_document())
        now[0] = 10.0
        begun_again = run(
            {
                "source": "kepler",
                "counters": {
                    "n1": {**second.counters["n1"].as_document(), "time": "2026-01-31T12:00:00Z"}
                },
            }
        )
    assert first.pods == {}
    assert "the next run gives power" in warnings[0]
    assert package_watts(second) == pytest.approx({"web-1": 30.0, "pg-0": 10.0})
    assert second.nodes["n1"] == pytest.approx({"package": 100.0, "dram": 10.0})
    for found in (too_late, begun_again):
        assert (found.pods, found.nodes, found.errors[0].reason) == ({}, {}, "no_sensor")


def test_a_kepler_tells_nothing_of_pods_on_other_nodes() -> None:
    """Labels come from Kepler, so they can only select a pod, and only of the node."""
    liar = MeteredNode("n2", (*N2.loads, *N1.loads, Load("u9", "shop", "<b>", 1.0)), 10, 60, 5)
    with exporters(N1, liar) as targets:
        found = metered(cluster(N1, N2), source="kepler", targets=targets)
    assert package_watts(found) == {"web-1": 30.0, "pg-0": 10.0, "web-2": 12.0}
    assert found.left_out == 3


def test_an_annotation_takes_no_watts_of_another_pod() -> None:
    line = 'kepler_pod_cpu_watts{pod_id="u1",pod_name="x",state="running",zone="package"} 1\n'
    with HttpsServer(
        {"/metrics": ServerReply(body=(N1.text() + line).encode())}, certificate=None
    ) as bad:
        targets = [{"name": "n1", "endpoint": bad.endpoint}]
        static = running(N1)
        static[1]["metadata"]["annotations"] = of_kubelet("u1")
        found = metered({**cluster(N1), "pods": static}, source="kepler", targets=targets)
    assert found.errors == []
    # The further name of a pod is left out.
    assert (package_watts(found)["web-1"], found.left_out) == (30.0, 1)


@pytest.mark.parametrize("annotations", [{"kubernetes.io/config.hash": "u9"}, None])
def test_two_pods_with_the_uid_of_a_manifest_are_none(annotations: Json | None) -> None:
    node = MeteredNode("n1", (Load("u9", "kube-system", "etcd-n1", 1.0),))
    pods = running(node)
    liar = copy.deepcopy(pods[0])
    liar["metadata"].update(name="liar", uid="u10", annotations=annotations or of_kubelet("u9"))
    pods[0]["metadata"].update(uid="in-the-api", annotations=of_kubelet("u9"))
    with exporters(node) as targets:
        found = metered({**cluster(node), "pods": [*pods, liar]}, source="kepler", targets=targets)
    # An annotation alone does not make a second pod; two pods with the same one both count for
    # nothing.
    assert [pod.name for pod in found.pods] == (["etcd-n1"] if annotations else [])


def of_kubelet(uid: str) -> Json:
    """Annotations of a pod from the kubelet's own manifests."""
    return {f"kubernetes.io/config.{key}": uid for key in ("hash", "mirror")}


def test_a_pod_of_the_kubelet_is_known_by_the_uid_of_its_manifest() -> None:
    pods = running(MeteredNode("n1", (Load("in-the-api", "kube-system", "etcd-n1", 1.0),)))
    pods[0]["metadata"]["annotations"] = of_kubelet("u1")
    pods[0]["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "n1", "controller": True}]
    with exporters(N1) as targets:
        found = metered({**cluster(N1), "pods": pods}, source="kepler", targets=targets)
    [pod] = found.pods
    assert (pod.name, pod.workload_kind, pod.workload) == ("etcd-n1", "Pod", "etcd-n1")


def test_a_node_without_pods_in_its_metrics_keeps_its_watts_and_says_why() -> None:
    with exporters(MeteredNode("n1", ())) as targets:
        found = metered(cluster(N1), source="kepler", targets=targets)
    assert found.nodes["n1"]["package"] == 100.0
    assert "let Kepler read the API (the cluster scope, --kube.enable)" in found.errors[0].detail


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ServerReply(body=b"kepler_pod_cpu_watts{"), "malformed"),
        (ServerReply(body=b"\xff\xfe"), "malformed"),
        (ServerReply(body=b"x" * (9 * 2**20)), "malformed"),
        (ServerReply(body=b"go_goroutines 1\n"), "no_sensor"),
        (ServerReply(body=RECORDED.replace("50.133", "5e9").encode()), "implausible"),
        (ServerReply(body=RECORDED.encode(), delay_seconds=30.0), "timeout"),
        (ServerReply(404, b""), "not_found"),
    ],
)
def test_a_bad_answer_is_an_error_of_that_node_alone(reply: ServerReply, reason: str) -> None:
    warnings: list[str] = []
    with exporters(N1) as [good], HttpsServer({"/metrics": reply}, certificate=None) as bad:
        targets = [good, {"name": "n2", "endpoint": bad.endpoint}]
        found = metered(
            cluster(N1, N2),
            context=at(0, warnings.append),
            source="kepler",
            targets=targets,
            timeout=0.5,
        )
    assert package_watts(found) == {"web-1": 30.0, "pg-0": 10.0}
    assert [(error.name, error.reason) for error in found.errors] == [("n2", reason)]
    assert len(warnings) == 1


def test_the_credential_goes_only_over_tls_and_only_if_named() -> None:
    answer = vector_reply(vectors("kepler_pod_cpu_watts", [N1])).body
    query: Json = {"credentials": {"monitoring": {"token": "s3cret"}, "default": {"token": "bmc"}}}
    for certificate in (SHARED_CERTIFICATE, None):
        with HttpsServer(certificate=certificate) as server:
            server.documents = _AnyQuery(answer)
            given: Json = {"source": "prometheus", "url": server.endpoint, "validate_certs": False}
            metered(cluster(N1), **given, **query)
            assert set(server.seen.authorizations) == {None}
            server.forget()
            found = metered(cluster(N1), **given, **query, credential="monitoring")
            seen = set(server.seen.authorizations)
        if certificate:
            assert (seen, found.pods != {}) == ({"Bearer s3cret"}, True)
        else:
            assert (seen, found.errors[0].reason) == (set(), "credential")


class _AnyQuery(dict[str, t.Any]):
    """Documents of a server with the same answer to every query."""

    def __init__(self, answer: t.Any) -> None:
        super().__init__()
        self._answer = answer

    def get(self, _path: str, _default: t.Any = None) -> t.Any:
        return self._answer

    def __contains__(self, _path: object) -> bool:
        return True

    def __getitem__(self, _path: str) -> t.Any:
        return self._answer


def test_metrics_have_few_namespaces_and_the_rest_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "MAX_NAMESPACES", 2)
    loads = tuple(Load(f"u{number}", f"ns{number}", "p", float(number)) for number in range(4))
    with exporters(MeteredNode("n1", loads)) as targets:
        node = MeteredNode("n1", loads)
        text = metered(cluster(node), source="kepler", targets=targets).metrics({"cluster": "c"})
    lines = [line for line in text.splitlines() if line.startswith("wattwise_namespace")]
    assert lines == [
        'wattwise_namespace_metered_watts{namespace="ns2",cluster="c"} 22',
        'wattwise_namespace_metered_watts{namespace="ns3",cluster="c"} 33',
        'wattwise_namespace_metered_watts{namespace="_others",cluster="c"} 11',
    ]
    assert 'wattwise_node_metered_watts{node="n1",cluster="c"} 110' in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "prometheus"}, "needs url"),
        ({"namespace": "a/../b"}, "not the name of a namespace"),
        ({"labels": {"a-b": "x"}}, "not a Prometheus label"),
        ({"labels": {"cluster": 1}}, "not a Prometheus label"),
        ({"port": 0}, "between 1 and 65535"),
    ],
)
def test_options_by_which_nothing_can_be_asked_are_refused(options: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        metering.check_options(metering.SPEC.complete(options))


@each_seed(25)
def test_series_of_a_node_are_read_as_without_the_odd_ones_beside_them(seed: int) -> None:
    """Exporters write the texts of labels; Prometheus writes everything else."""
    source = random.Random(seed)
    texts = ["n2", "dram", "package", "u3", *(one for one in TEXTS if "\ud800" not in one)]

    def odd(series: Json) -> Json:
        labels = {name: source.choice([text, *texts]) for name, text in series["metric"].items()}
        # An exporter's data about its own node may be odd, but it cannot pose as another node.
        labels["node_name"] = source.choice(["n2", source.choice(texts)])
        return {"metric": labels, "value": [0, source.choice(["NaN", "-1", *texts])]}

    def answer(asked: Asked) -> Reply:
        query = urllib.parse.unquote_plus(asked.path)
        good, bad = vectors(query, [N1]), [odd(one) for one in vectors(query, [N2, N2])]
        return vector_reply([*bad, *good] if source.randrange(2) else [*good, *bad])

    with bounded(), ScriptedApi(answer) as server:
        found = metered(cluster(N1, N2), source="prometheus", url=server.url)
    assert {pod.name: zones for pod, zones in found.pods.items() if pod.node == "n1"} == {
        "web-1": {"package": 30.0, "dram": 3.0},
        "pg-0": {"package": 10.0, "dram": 1.0},
    }
    assert found.nodes["n1"] == {"package": 100.0, "dram": 10.0}
    of_n1 = {pod.name: cores for pod, cores in found.cores.items() if pod.node == "n1"}
    assert of_n1 == {"web-1": 3.0, "pg-0": 1.0}
    assert_fit_for_documents(found.as_document())


def test_cpus_told_twice_of_a_node_without_package_leave_the_other_nodes() -> None:
    package = {"node_name": "n2", "zone": "package"}

    def answer(asked: Asked) -> Reply:
        query = urllib.parse.unquote_plus(asked.path)
        series = vectors(query, [N1, N2])
        if "cpu_seconds" in query:
            series += vectors(query, [N2])
        return vector_reply([one for one in series if one["metric"] != package])

    with ScriptedApi(answer) as server:
        found = metered(cluster(N1, N2), source="prometheus", url=server.url)
    assert found.nodes == {"n1": {"package": 100.0, "dram": 10.0}}
    assert {(error.name, error.reason) for error in found.errors} == {
        ("n2", "malformed"),
        ("n2", "no_sensor"),
    }


@each_seed(25)
def test_no_answer_of_prometheus_ends_the_metering(seed: int) -> None:
    source = random.Random(seed)
    path = "/api/v1/query?query="
    good = vector_reply(vectors("kepler_pod_cpu_watts", [N1])).body
    with bounded(), HttpsServer(certificate=None) as server:
        server.documents = _AnyQuery(odd_reply(source, good))
        given: Json = {"source": "prometheus", "url": server.endpoint, "timeout": 2.0}
        found = metered(cluster(N1), **given)
        assert path in next(iter(server.requests))
    assert_fit_for_documents(found.as_document())


@each_seed(25)
def test_a_node_is_read_as_without_the_odd_one_beside_it(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    text = N2.text().encode()
    cut = source.randrange(len(text))
    answers = [
        ServerReply(body=text[:cut] + source.choice(TEXTS).encode(errors="replace") + text[cut:]),
        ServerReply(body=text[:cut]),
        odd_reply(source, {"a": 1}),
    ]
    pods = [*running(N1), spoilt(source, running(N2)[0], finite=False), odd_value(source)]
    nodes = [*cluster(N1, N2)["nodes"], odd_value(source)]
    with (
        bounded(),
        exporters(N1) as [good],
        HttpsServer({"/metrics": source.choice(answers)}, certificate=None) as bad,
    ):
        targets = [{"name": "n2", "endpoint": bad.endpoint}, good]
        options: Json = {"source": "kepler", "targets": targets, "timeout": 2.0}
        found = metered({"nodes": nodes, "pods": pods}, **options)
    of_n1 = {pod.name: zones for pod, zones in found.pods.items() if pod.node == "n1"}
    assert of_n1 == {
        "web-1": {"package": 30.0, "dram": 3.0},
        "pg-0": {"package": 10.0, "dram": 1.0},
    }
    assert not [error for error in found.errors if error.name == "n1"]
    body = found.as_document()
    assert_fit_for_documents(body)
    documents.write(str(tmp_path / "metering.json"), "metering", body)
