# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of roles are checked against the roles' specifications, without showing a secret."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.plugin_utils.role_variables import (
    ROLES,
    RenderedValue,
    misspelt,
    problems_of,
    role_names,
    variables_of,
)

Json = dict[str, t.Any]

# Belongs to an entry point that runs on nodes, not on clusters.
OF_HOSTS = {"kepler": variables_of(["kepler"], "host")}
EVERYTHING = {**OF_HOSTS["kepler"], **variables_of(role_names())}
FINGERPRINT = "must be a SHA-256 fingerprint, 64 hexadecimal digits"


def problems(name: str, value: t.Any, **given: t.Any) -> list[str]:
    return problems_of(EVERYTHING[name], RenderedValue(value, **given))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("observe_timeout", "soon", "observe_timeout is 'soon', but must be a number"),
        ("observe_timeout", "nan", "observe_timeout is 'nan', but must be a number"),
        ("observe_timeout", 0, "observe_timeout is 0, but must be more than 0"),
        ("observe_timeout", True, "observe_timeout is True, but must be a number"),
        ("observe_concurrency", 0, "observe_concurrency is 0, but must be 1 or more"),
        ("observe_concurrency", "6.5", "… is '6.5', but must be a whole number"),
        ("observe_min_success", 1.5, "observe_min_success is 1.5, but must be from 0 to 1"),
        ("observe_validate_certs", "soon", "… is 'soon', but must be true or false"),
        ("observe_gather", ["inlet", 3], "observe_gather[1] is 3, but must be one of inlet, power"),
        ("observe_ca_path", "/nowhere/a", "… is '/nowhere/a', but there is no such file"),
        ("observe_textfile", "/nowhere/a", "… is '/nowhere/a', but there is no folder /nowhere"),
        ("observe_tls_fingerprints", ["12"], f"…[0] is '12', but {FINGERPRINT}"),
        ("node_configs_tls_fingerprints", {"n1": ["12"]}, f"…['n1'] is '12', but {FINGERPRINT}"),
        ("placement_unpriced", "no", "… is 'no', but must be one of last_resort, exclude"),
        ("placement_scheduler_name", ["a"], "… is a list, but must be a text"),
        ("placement_seed", 1 << 31, "… is 2147483648, but must be from 0 to 2147483647"),
        ("crds_adopt", {}, "crds_adopt is a dictionary, but must be true or false"),
        ("node_configs_templates", [{"name": "a"}], "…[0].spec is missing, but required"),
        (
            "rmd_layouts",
            [{"name": "a", "ways": "x"}],
            "…[0].ways is 'x', but must be a whole number",
        ),
    ],
)
def test_a_problem_names_the_variable_the_value_and_the_expected_one(
    name: str, value: t.Any, sentence: str
) -> None:
    assert problems(name, value) == [sentence.replace("…", name)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("observe_timeout", "2.5"),  # AWX and -e give texts
        ("observe_validate_certs", "false"),
        ("observe_gather", "inlet,power"),
        ("observe_ca_path", ""),
        ("observe_textfile", None),
        ("observe_min_success", 1),
        ("node_configs_tls_fingerprints", {"n1": "ab" * 32, "n2": ["cd:" * 31 + "cd"]}),
        ("node_configs_secrets", [{"name": "a", "username": "b", "password": 12345}]),
        ("placement_credentials", {"default": {"username": "a", "password": "b"}}),
    ],
)
def test_values_that_roles_take_are_right(name: str, value: t.Any) -> None:
    assert problems(name, value) == []


def test_every_default_of_every_role_is_right() -> None:
    for role in role_names():
        defaults = yaml.safe_load((ROLES / role / "defaults" / "main.yml").read_text())
        for name, value in defaults.items():
            if not (isinstance(value, str) and "{{" in value):
                assert problems(name, value) == [], name


def test_all_problems_of_a_variable_are_told_at_once() -> None:
    assert len(problems("node_configs_templates", [{"nam": "a"}, {"name": "b"}])) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node_configs_secrets", "hunter2"),
        ("node_configs_secrets", ["hunter2"]),
        ("node_configs_secrets", [{"name": "a", "password": {"hunter2": 1}}]),
        ("observe_credentials", "hunter2"),
        ("observe_credentials", {"default": "hunter2"}),
        ("observe_credentials", {"default": {"password": "hunter2"}}),
    ],
)
def test_a_value_that_may_be_a_password_is_not_shown(name: str, value: t.Any) -> None:
    found = problems(name, value)
    assert found
    assert "hunter2" not in "".join(found)


def test_a_rendered_value_is_shown_as_the_inventory_has_it() -> None:
    [problem] = problems("observe_timeout", "hunter2", source="{{ vault_password }}")
    assert problem == "observe_timeout is '{{ vault_password }}', but must be a number"


def test_folders_must_be_makeable(tmp_path: Path) -> None:
    assert problems("observe_run_dir", str(tmp_path / "a" / "b")) == []
    (tmp_path / "file").touch()
    [problem] = problems("observe_run_dir", str(tmp_path / "file" / "b"))
    assert problem.endswith(f"must be a folder, and {tmp_path / 'file'} is a file")


def test_files_of_gateways_are_not_looked_for_here() -> None:
    given = RenderedValue("/nowhere/ca.pem")
    assert problems_of(EVERYTHING["observe_ca_path"], given, gateways=True) == []
    assert problems_of(EVERYTHING["placement_ca_path"], given, gateways=True)


def test_misspelt_names_are_recognised_and_others_left_alone() -> None:
    names = [
        "observe_concurency",
        "placement_time_limits",
        "report_mail",
        "observer",
        "rmd_endpoints",
    ]
    assert misspelt([*names, *EVERYTHING]) == {
        "observe_concurency": "observe_concurrency",
        "placement_time_limits": "placement_time_limit",
    }


def test_no_variable_that_a_role_makes_itself_counts_as_misspelt() -> None:
    made = set()
    for path in (*ROLES.glob("*/tasks/*.yml"), *(ROLES.parent / "playbooks").glob("*.yml")):
        text = path.read_text()
        made.update(re.findall(r"register: (\w+)", text))
        # Variables of tasks belong to the tasks, so only those of set_fact count beside them.
        for facts in re.findall(r"set_fact:\n((?: {8,}.*\n)+)", text):
            made.update(re.findall(r"^ +(\w+):", facts, re.MULTILINE))
    for path in ROLES.glob("*/vars/main.yml"):
        made.update(yaml.safe_load(path.read_text()))
    assert "placement_run" in made
    assert misspelt(made) == {}


def test_every_number_and_name_of_a_role_has_a_limit() -> None:
    """A number without limits is accepted, however absurd, until a module refuses it."""
    unlimited = [
        name
        for name, variable in EVERYTHING.items()
        if not variable.limits
        and (
            variable.spec["type"] in ("int", "float")
            or name.endswith(("_namespace", "_run_dir", "_fingerprints", "_kubeconfig", "_name"))
        )
    ]
    # The name on a certificate may be empty or any other text that a certificate can hold.
    assert unlimited == ["rmd_workloads_server_name"]


@pytest.mark.parametrize("role", role_names())
def test_limits_are_of_variables_that_the_role_takes(role: str) -> None:
    entry_points = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text())
    options = [entry["options"].keys() for entry in entry_points["argument_specs"].values()]
    limits = yaml.safe_load((ROLES / role / "meta" / "limits.yml").read_text())["limits"]
    assert limits.keys() <= set().union(*options)


@pytest.mark.parametrize("role", role_names())
def test_a_role_checks_variables_of_other_roles_that_it_reads(role: str) -> None:
    texts = [
        path.read_text() for path in (ROLES / role).glob("*/*.yml") if "meta" not in path.parts
    ]
    read = set(re.findall(r"\b[a-z]\w+\b", "\n".join(texts))) & EVERYTHING.keys()
    # The play reads these for all roles.
    read -= {"wattwise_run_dir", "wattwise_kubeconfig", "wattwise_context"}
    # The `awx` role passes these to jobs.
    passed = {"placement_bind", "placement_store_plan", "sleep_mode", "sleep_store_plan"}
    read -= passed if role == "awx" else set()
    assert read <= {**variables_of([role]), **OF_HOSTS.get(role, {})}.keys()


def test_a_role_or_entry_point_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match="no role observer"):
        variables_of(["observer"])
    with pytest.raises(InvalidInput, match="entry point teardown"):
        variables_of(["observe"], "teardown")


# --- playbooks ---------------------------------------------------------------------------------


def imported(tasks: t.Iterable[Json]) -> t.Iterator[tuple[str, str, Json]]:
    """Role, entry point and arguments of each import or include, also within blocks."""
    for task in tasks:
        yield from imported(task.get("block") or [])
        for action in ("ansible.builtin.import_role", "ansible.builtin.include_role"):
            if action in task:
                arguments = task[action]
                role = arguments["name"].rpartition(".")[2]
                yield role, arguments.get("tasks_from", "main"), arguments


def plays() -> list[t.Any]:
    folder = ROLES.parent / "playbooks"
    return [
        pytest.param(play, id=path.stem)
        for path in sorted(folder.glob("*.yml"))
        for play in yaml.safe_load(path.read_text())
    ]


# Entry points and the roles whose variables they read, where these differ.
ENTRIES_WITH_THE_VARIABLES_OF = {
    ("placement", "fleet"): ("observe", "placement"),
    ("placement", "bind"): ("placement",),
    ("devices", "after_placement"): ("devices",),
    ("sleep", "main"): ("observe", "placement", "sleep"),
    ("sleep", "switch_off"): ("observe", "placement", "sleep"),
    ("sleep", "wake"): ("observe", "sleep"),
}


@pytest.mark.parametrize("play", plays())
def test_a_playbook_checks_the_variables_of_all_its_roles_first(play: Json) -> None:
    tasks = [*(play.get("pre_tasks") or []), *(play.get("tasks") or [])]
    first = next(task for task in tasks if "ansible.builtin.set_fact" not in task)
    check = first["wattwise.kube.validate_role_variables"]
    assert first["tags"] == ["always"]
    used = {(role["role"].rpartition(".")[2], "main") for role in play.get("roles") or []}
    used |= {(role, entry) for role, entry, _arguments in imported(play.get("tasks") or [])}
    for entry, roles in ENTRIES_WITH_THE_VARIABLES_OF.items():
        if entry in used:
            used = used - {entry} | {(role, "main") for role in roles}
    # These read no variable, or those of another entry point that is checked.
    used -= {("report", "failed"), ("report", "end"), ("crds", "opt_in_teardown")}
    checked = {(role, check.get("entry_point", "main")) for role in check.get("roles", [])}
    assert checked == used
    tags = {role["role"].rpartition(".")[2]: role["tags"] for role in play.get("roles") or []}
    for task in play.get("tasks") or []:
        role = task.get("ansible.builtin.import_role", {}).get("name", "").rpartition(".")[2]
        tags[role] = task.get("tags")
    for role, given in check.get("tags", {}).items():
        assert given == tags[role]
    assert check["group"]


def test_playbooks_of_clusters_choose_their_hosts_alike() -> None:
    """Playbooks with the same hosts give the same message for an inventory without a cluster."""
    # The `devices` playbook also takes files; the others work on nodes and on AWX.
    own = {"awx", "devices", "rmd_node_agent"}
    alike = [param.values[0] for param in plays() if param.id not in own]
    assert len(alike) > 10
    assert len({play["hosts"] for play in alike}) == 1
    for play in alike:
        _connection, check = play["pre_tasks"]
        assert check["wattwise.kube.validate_role_variables"]["group"] == "clusters"
