# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as users install it: from its archive, without the repository on any path.

The environment has the programs of this interpreter, an empty home, and the variables of the tested
case: an example of a schedule, or a job of AWX, each of whose containers starts empty.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from lab import faults, workload
from lab.api import Api
from lab.awx.api import ADMINISTRATOR, running_awx
from lab.awx.jobs import Job, Outcome
from lab.inventory import CLUSTER
from lab.process import wait_until
from support import dockerfile, systemd_units
from support.awx import PLAYBOOKS, Server, apply_in_process
from support.awx_settings import WORKFLOW_ALONE, default_configuration
from support.commands import output_of
from support.lab import RunningLab
from support.playbook import COLLECTIONS, PlaybookRun, run_playbook
from support.rulebook import java_folder, running_rulebook

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
RBAC = ROOT / "docs" / "rbac"
PROGRAMS = str(Path(sys.executable).parent)
SERVICE = "wattwise.service"
WORKFLOW = "wattwise.kube place with approval"
DEAD = "r1-n01"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class Installation:
    """A folder of collections, the home beside it, and their paths in the example."""

    collections: Path
    home: Path
    lab: RunningLab

    def path(self, text: str) -> str:
        """A word of an example, with this machine's paths in place of the example's."""
        places = {
            "/opt/wattwise/collections": str(self.collections),
            "/opt/wattwise/venv/bin": PROGRAMS,
            "/etc/wattwise/inventory.yml": str(self.lab.state.inventory),
            "%d/kubeconfig": self.lab.kubeconfig,
            "/var/lib/wattwise": str(self.home),
        }
        for place, here in places.items():
            text = text.replace(place, here)
        return text

    def environment(self) -> dict[str, str]:
        """The service's environment; a service of systemd otherwise has only PATH and LANG."""
        given = systemd_units.environment(SERVICE)
        variables = {name: self.path(value) for name, value in given.items()}
        return {**variables, "PATH": f"{PROGRAMS}:/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture(scope="module")
def installation(whole_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The archive, built and installed with ansible-galaxy."""
    folder = tmp_path_factory.mktemp("installed")
    home = folder / "home"
    home.mkdir()
    made = Installation(folder / "collections", home, whole_lab)
    galaxy = [f"{PROGRAMS}/ansible-galaxy", "collection"]
    output_of([*galaxy, "build", "--output-path", str(folder)], ROOT, made.environment())
    [archive] = folder.glob("wattwise-kube-*.tar.gz")
    installed = [*galaxy, "install", str(archive), "--offline", "-p", str(made.collections)]
    output_of(installed, home, made.environment())
    return made


@pytest.fixture(scope="module")
def api(whole_lab: RunningLab) -> Iterator[Api]:
    with Api(whole_lab.state.kubeconfig) as opened:
        workload.make_namespace(opened)
        yield opened
        workload.delete_pods(opened, whole_lab.settings)


def waiting(api: Api) -> list[str]:
    """Pods without a node."""
    pods = workload.list_pods(api)
    return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]


@pytest.fixture(scope="module")
def first_run(installation: Installation, api: Api) -> str:
    """Output of the timer's service; afterwards the cluster has NodeConfigs and six pods."""
    workload.create_pods(api, workload.demo_pods(6, seed=9), "wattwise")
    command = [installation.path(word) for word in systemd_units.command(SERVICE)]
    assert str(COLLECTIONS) not in " ".join([*command, *installation.environment().values()])
    return output_of(command, installation.home, installation.environment())


def test_the_main_job_runs_from_the_archive_as_the_timer_starts_it(
    installation: Installation, first_run: str
) -> None:
    documents = installation.home / "runs" / CLUSTER
    assert f"{documents}/report.html" in first_run
    summary = json.loads((documents / "summary.json").read_text())
    assert summary["placed"] == 6 and summary["waiting"] == summary["failing"] == 0


@pytest.mark.usefixtures("first_run")
def test_navigator_runs_a_playbook_of_the_archive(installation: Installation) -> None:
    """Without an image, because there is no container engine; with one, the command is the same."""
    shutil.copy(EXAMPLES / "ansible-navigator.yml", installation.home)
    page = installation.home / "runs" / CLUSTER / "report.html"
    page.unlink()
    inventory = ["--inventory", str(installation.lab.state.inventory)]
    given = [*inventory, "--extra-vars", f"wattwise_run_dir={installation.home}/runs"]
    navigator = [f"{PROGRAMS}/ansible-navigator", "run", "wattwise.kube.report"]
    output_of(
        [*navigator, "--execution-environment", "false", *given],
        installation.home,
        installation.environment(),
    )
    assert page.stat().st_size > 10_000


@pytest.mark.usefixtures("first_run")
def test_a_rulebook_of_the_archive_places_the_waiting_pods_when_it_gets_hot(
    installation: Installation, api: Api
) -> None:
    """The real ansible-rulebook runs the ``place`` playbook; this limit makes every inlet hot."""
    java_folder()
    workload.create_pods(api, workload.demo_pods(12, seed=9)[9:], "wattwise")
    variables = {"wattwise_kubeconfig": installation.lab.kubeconfig, "hot_inlet_celsius": 10}
    started = running_rulebook(
        "wattwise.kube.hot_racks",
        installation.home,
        variables,
        installation.environment(),
        *("--inventory", str(installation.lab.state.inventory)),
    )
    with started as rulebook:
        rulebook.wait_until(lambda: waiting(api) == [], "the playbook to bind the waiting pods")


def cron_job() -> tuple[Json, Json]:
    """The example's ConfigMap and CronJob."""
    text = (EXAMPLES / "kubernetes" / "cronjob.yaml").read_text()
    [configuration, job] = yaml.safe_load(text)["items"]
    return configuration, job


@pytest.fixture
def account(installation: Installation, api: Api, tmp_path: Path) -> Path:
    """The folder of the pod's service account, which has only the permissions of the example."""
    _configuration, job = cron_job()
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    namespace = job["metadata"]["namespace"]
    for name in ("account", "observe", "placement"):
        manifests = yaml.safe_load((RBAC / f"{name}.yaml").read_text())["items"]
        apply({"kubeconfig": installation.lab.kubeconfig, "manifests": manifests})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{pod['serviceAccountName']}/token"
    token = api.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text(token)
    shutil.copy(installation.lab.state.ca_certificate, folder / "ca.crt")
    return folder


def test_the_objects_of_the_cron_job_are_valid(account: Path, api: Api) -> None:
    """From the API server itself: unknown fields are refused, and nothing is stored."""
    del account  # The first object creates the namespace.
    collections = {"ConfigMap": "/api/v1", "CronJob": "/apis/batch/v1"}
    for manifest in cron_job():
        namespace = manifest["metadata"]["namespace"]
        kind = manifest["kind"]
        path = f"{collections[kind]}/namespaces/{namespace}/{kind.lower()}s"
        api.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        assert api.find(f"{path}/{manifest['metadata']['name']}") is None


@pytest.mark.usefixtures("first_run")
def test_the_cron_job_binds_pods_with_the_permissions_of_its_account(
    installation: Installation, account: Path, api: Api, tmp_path: Path
) -> None:
    """The command of the container, in the image's tree and environment, without a run folder."""
    workload.create_pods(api, workload.demo_pods(9, seed=9)[6:], "wattwise")
    configuration, job = cron_job()
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    image, mounted, temporary = tmp_path / "image", tmp_path / "mounted", tmp_path / "tmp"
    mounted.mkdir()
    temporary.mkdir()
    dockerfile.lay_out(tmp_path)
    places = {"/etc/wattwise": mounted, dockerfile.HOME: image, "/tmp": temporary}

    def here(text: str) -> str:
        return re.sub("|".join(places), lambda found: str(places[found.group()]), text)

    authorities = {"ca.crt": installation.lab.state.ca_certificate.read_text()}
    for name, text in {**configuration["data"], **authorities}.items():
        (mounted / name).write_text(here(text))
    kubeconfig = image / "kubeconfig"
    text = kubeconfig.read_text().replace("https://kubernetes.default.svc", api.server)
    kubeconfig.write_text(text.replace(ACCOUNT, str(account)))
    variables = dockerfile.environment(image, temporary, PROGRAMS)
    variables |= {each["name"]: here(each["value"]) for each in container["env"]}
    command = [here(word) for word in container["args"]]
    ended = output_of(command, temporary, variables)
    assert waiting(api) == []
    assert "3 pods placed" in ended
    assert [path.name for path in (temporary / "runs").iterdir()] == ["hall-1"]


@dataclass
class Containers:
    """Runs each job with only an empty home, the inventory, and the job's own inputs."""

    installation: Installation
    inventory: Path
    folder: Path
    jobs: dict[str, Job] = field(default_factory=dict)
    runs: dict[str, PlaybookRun] = field(default_factory=dict)

    def __call__(self, job: Job) -> Outcome:
        name = "report" if job.tags else Path(job.playbook).stem
        self.jobs[name] = job
        home = self.folder / name
        home.mkdir()
        run = self.runs[name] = self.run(job, home, job.environment)
        return Outcome(run.returncode == 0, run.custom_stats() if run.returncode == 0 else {})

    def run(self, job: Job, home: Path, environment: Mapping[str, str]) -> PlaybookRun:
        """The job in a home, which holds the documents of the run."""
        variables = home / "extravars.json"
        variables.write_text(json.dumps(job.extra_vars))
        tags = ("--tags", job.tags) if job.tags else ()
        given = ("-i", str(self.inventory), "-e", f"@{variables}", "-e", f"wattwise_run_dir={home}")
        return run_playbook(
            f"wattwise.kube.{Path(job.playbook).stem}",
            home,
            *given,
            *tags,
            as_json=True,
            HOME=str(home),
            PYTHONPATH="",
            ANSIBLE_COLLECTIONS_PATH=str(self.installation.collections),
            **environment,
        )

    def outputs(self) -> dict[str, str]:
        """The output of the jobs, to see why one failed."""
        return {name: run.output for name, run in self.runs.items()}


def tree(folder: Path) -> dict[str, int]:
    """The files of a folder, and the time of their last change."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def bound(api: Api) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in workload.list_pods(api)
        if pod["spec"].get("nodeName")
    }


@pytest.fixture
def inventory(installation: Installation, tmp_path: Path) -> Path:
    """The lab's inventory without its kubeconfig, which comes from a credential.

    Plans also have the power draw of the default scheduler, the reference of reported savings.
    """
    path = tmp_path / "inventory.yml"
    text = installation.lab.state.inventory.read_text()
    compared = re.sub("wattwise_kubeconfig: .*", "placement_compare: [spread]", text)
    assert compared != text
    path.write_text(compared)
    return path


@pytest.fixture
def dead_bmc(installation: Installation) -> Iterator[Callable[[str], None]]:
    """Lets the BMC of a node fail; it is repaired after the test."""
    settings = installation.lab.settings
    yield lambda node: faults.call(
        settings, "POST", "/faults", [{"kind": "dead-bmc", "node": node}]
    )
    faults.call(settings, "DELETE", "/faults")


@pytest.mark.usefixtures("first_run")
def test_a_workflow_of_awx_binds_what_was_approved_and_nothing_else(
    installation: Installation,
    inventory: Path,
    api: Api,
    dead_bmc: Callable[[str], None],
    tmp_path: Path,
) -> None:
    """The kubeconfig comes from a credential, the plan from the job before the approval.

    The reporting job has no folder, and a BMC failed in the meantime; it reports the same as a run
    with the previous job's folder.
    """
    workload.delete_pods(api, installation.lab.settings)
    workload.create_pods(api, workload.demo_pods(8, seed=5)[:6], "wattwise")
    collection = tree(installation.collections)
    inputs = {"kubeconfig": installation.lab.state.kubeconfig.read_text()}
    credential = {"name": "lab", "type": "cluster", "inputs": inputs}
    lists = default_configuration(credentials=[credential], **WORKFLOW_ALONE)
    containers = Containers(installation, inventory, tmp_path)
    with running_awx(PLAYBOOKS, containers) as awx:
        server = Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})
        apply_in_process(lists, server)
        number, _item = awx.find("workflow_job_templates", WORKFLOW)
        launched = server.post(f"workflow_job_templates/{number}/launch/", {})["id"]
        nodes = f"workflow_jobs/{launched}/workflow_nodes/"
        record = awx.jobs.records["workflow_jobs"][launched]

        def asks() -> bool:
            assert record["finished"] is None, containers.outputs()
            return bool(server.get(nodes, job__name="Bind?")["results"])

        wait_until(asks, 120.0, "the approval")
        stored = containers.runs["place"].custom_stats()["wattwise_stored_plans"][CLUSTER]
        assert stored["pods"] == 6
        assert bound(api) == {}
        approved = {pod["metadata"]["name"] for pod in workload.list_pods(api)}
        workload.create_pods(api, workload.demo_pods(8, seed=5)[6:], "wattwise")
        dead_bmc(DEAD)
        [waiting] = server.get(nodes, job__name="Bind?")["results"]
        decision = waiting["related"]["job"].removeprefix("/api/v2/") + "approve/"
        server.post(decision, {})
        wait_until(lambda: record["finished"] is not None, 120.0, "the workflow to end")
    assert record["status"] == "successful", containers.outputs()
    assert bound(api).keys() == approved
    assert list(containers.runs) == ["observe", "place", "bind", "report"]
    for name in ("bind", "report"):
        summary = containers.runs[name].custom_stats()["wattwise_summaries"][CLUSTER]
        assert summary["placed"] == 6, name
    assert_the_same_is_reported(containers.jobs["report"], containers)
    assert tree(installation.collections) == collection


def assert_the_same_is_reported(without_folder: Job, containers: Containers) -> None:
    """Watts, savings and old values, reported by a run with the previous job's folder."""
    kept = containers.folder / "bind"
    kubeconfig = {"K8S_AUTH_KUBECONFIG": containers.installation.lab.kubeconfig}
    runs = [containers.runs["report"], containers.run(without_folder, kept, kubeconfig)]
    one, other = (run.custom_stats()["wattwise_summaries"][CLUSTER] for run in runs)
    # Everything except names of files, times, and watts of machines that were read again.
    for values in (one, other):
        for name in ("report", "time", "lines"):
            del values[name]
    after, added = (
        [values[group].pop("measured_after") for values in (one, other)]
        for group in ("watts", "added")
    )
    assert one == other and one["failing"] == 1
    assert after[0] == pytest.approx(after[1], rel=0.01)
    assert added[0] == pytest.approx(added[1], abs=0.01 * after[0])
    assert one["saved"]["watts"] > 0
    old = [
        json.loads((folder / CLUSTER / "readings.json").read_text())["readings"][DEAD]
        for folder in (containers.folder / "report", kept)
    ]
    for kind in ("inlet_celsius", "stale"):
        assert old[0][kind] == old[1][kind]
    # A job without a folder has only the status, which keeps watts that changed by less.
    assert old[0]["power_watts"] == pytest.approx(old[1]["power_watts"], rel=0.02)
    assert old[0]["stale"] and old[0]["power_watts"] > 0


def test_a_job_without_its_credential_or_with_a_wrong_one_says_so(
    installation: Installation, inventory: Path, tmp_path: Path
) -> None:
    """A job without kubeconfig, and one with a token that the API server does not know."""
    containers = Containers(installation, inventory, tmp_path)
    wrong = yaml.safe_load(installation.lab.state.kubeconfig.read_text())
    wrong["users"][0]["user"] = {"token": "t0ken-of-nobody"}
    path = tmp_path / "wrong.kubeconfig"
    path.write_text(yaml.safe_dump(wrong))
    told = {}
    for name, environment in {"none": {}, "wrong": {"K8S_AUTH_KUBECONFIG": str(path)}}.items():
        home = tmp_path / name
        home.mkdir()
        run = containers.run(Job(1, "playbooks/observe.yml", "", {}, {}), home, environment)
        assert run.returncode != 0
        assert "t0ken-of-nobody" not in run.output
        told[name] = run.failures()[CLUSTER]
    assert "K8S_AUTH_KUBECONFIG" in told["none"]
    assert "401" in told["wrong"]
