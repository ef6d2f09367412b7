# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gates and tests. The Makefile starts them with `--no-venv` from .venvs/development.

Every session runs in the mirror (scripts/collection_tree.py says why). Reports, caches and the
private home of ansible-test lie in build/. Sessions run in the order of this file: cheap first.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import nox

REPOSITORY = Path(__file__).resolve().parent
sys.path.insert(0, str(REPOSITORY))

from lab.releases import OLDEST  # noqa: E402 - found through the line above
from scripts import ansible_test_home, chromium, other_cores  # noqa: E402 - the same
from scripts.collection_tree import MIRROR, synchronize  # noqa: E402 - the same

BUILD = REPOSITORY / "build"
REPORTS = BUILD / "reports"
TOOLS = Path(sys.executable).parent
UV_FOLDER = REPOSITORY / ".venvs" / "uv" / "bin"
REFERENCE = REPOSITORY.parent / "shared" / "reference"
# The integration tests that depend on what an API server accepts, serves and defaults.
API_TESTS = (
    *("lab_controlplane", "pod_fields", "kube_apply", "binding", "eviction", "rights"),
    *("wao_crds", "device_crds", "rmd_crds", "agent_policies", "devices_policies"),
    *("device_reconciliation", "dra_reconciliation", "dra_features", "rmd_pods", "main_job"),
)
PLUGINS_PACKAGE = "ansible_collections.wattwise.kube.plugins"

os.environ["PATH"] = os.pathsep.join([str(TOOLS), os.environ.get("PATH", os.defpath)])
if not sys.stdout.isatty():
    os.environ.setdefault("NO_COLOR", "1")
nox.options.stop_on_first_error = not os.environ.get("CI")
nox.options.sessions = []


SessionFunction = Callable[[nox.Session], None]


def gate(*tags: str) -> Callable[[SessionFunction], SessionFunction]:
    """A session in the mirror that starts by saying what it does."""

    def decorate(function: SessionFunction) -> SessionFunction:
        def session_function(session: nox.Session) -> None:
            session.log(str(function.__doc__))
            synchronize()
            REPORTS.mkdir(parents=True, exist_ok=True)
            session.chdir(MIRROR)
            function(session)

        session_function.__doc__ = function.__doc__
        return nox.session(name=function.__name__, tags=tags)(session_function)

    return decorate


def environment() -> dict[str, str | None]:
    """What every tool needs to find our collection, those that `ansible` brings, and the lab."""
    variables: dict[str, str | None] = {
        "PYTHONPATH": str(BUILD),
        "PYTHONDONTWRITEBYTECODE": None,
        "ANSIBLE_COLLECTIONS_PATH": f"{BUILD}{os.pathsep}{sysconfig.get_path('purelib')}",
        "WATTWISE_REPOSITORY": str(REPOSITORY),
    }
    if "WATTWISE_REFERENCE" not in os.environ and REFERENCE.is_dir():
        variables["WATTWISE_REFERENCE"] = str(REFERENCE)
    return variables


def run(session: nox.Session, *command: str, **variables: str) -> None:
    """Run a tool of the development environment."""
    session.run(*command, env={**environment(), **variables}, external=True)


def run_each(session: nox.Session, *commands: tuple[str, ...], **variables: str) -> None:
    """Run all of the commands, then fail if any of them failed."""
    failures = []
    for command in commands:
        try:
            run(session, *command, **variables)
        except nox.command.CommandFailed as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def run_side_by_side(session: nox.Session, *commands: tuple[str, ...], **variables: str) -> None:
    """Run commands at the same time, print what each said, then fail if any of them failed."""
    if len(commands) == 1:
        run(session, *commands[0], **variables)
        return
    all_variables = {**environment(), **variables}

    def run_aside(number: int) -> bool:
        with (REPORTS / f"{session.name}-{number}.log").open("w+") as log:
            try:
                session.run(*commands[number], env=all_variables, external=True, stdout=log)
            except nox.command.CommandFailed:
                return False
            finally:
                log.seek(0)
                sys.stdout.write(log.read())
                sys.stdout.flush()
        return True

    with concurrent.futures.ThreadPoolExecutor() as executor:
        if not all(list(executor.map(run_aside, range(len(commands))))):
            session.error("not all of them passed; see above")


def run_pytest(
    session: nox.Session, *arguments: str, launcher: tuple[str, ...] = (), **variables: str
) -> None:
    """Run pytest with a report that scripts/gates.py sums up."""
    report = REPORTS / f"{session.name}.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-p", "no:cacheprovider", f"--junit-xml={report}")
    run(session, "python", "-m", *launcher, "pytest", *options, *arguments, **variables)


@functools.cache
def start_lab_build() -> subprocess.Popen[bytes]:
    """Start to compile the lab's control plane: minutes with an empty cache, seconds after that."""
    with (REPORTS / "lab-build.log").open("wb") as log:
        process = subprocess.Popen(
            ["nice", str(TOOLS / "python"), "-m", "lab", "build"],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    atexit.register(stop, process)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)


def wait_for_lab_build(session: nox.Session) -> None:
    """Return when the control plane is built; show the compiler's words where it is not."""
    if start_lab_build().wait() != 0:
        session.error((REPORTS / "lab-build.log").read_text())


def run_sanity(
    session: nox.Session, tools: Path, interpreters: dict[str, Path], *lanes: tuple[str, ...]
) -> None:
    """Run the sanity tests of the ansible-core whose commands are in `tools`.

    Each lane is the options of one run of ansible-test; lanes run at the same time.
    """
    session.log(f"interpreters found: {', '.join(interpreters)}")
    home = BUILD / "home"
    variables = ansible_test_home.prepare(home, tools, interpreters, UV_FOLDER / "python")
    command = (str(tools / "ansible-test"), "sanity", "--local", "--requirements", "--color", "no")
    run_side_by_side(session, *((*command, *lane) for lane in lanes), **variables)


def core_environment(session: nox.Session, core: str) -> other_cores.CoreEnvironment | None:
    """An environment with that ansible-core; None where there is no interpreter for it."""
    found = other_cores.make(
        core,
        BUILD / "cores" / core,
        MIRROR / "requirements" / "controller.txt",
        (str(UV_FOLDER / "python"), "-m", "scripts.registry_settings", str(UV_FOLDER / "uv")),
        functools.partial(run, session),
    )
    if found is None:
        versions = " or ".join(other_cores.OTHER_CORES[core])
        session.log(f"ansible-core {core} needs Python {versions}: left out")
    return found


def try_core(session: nox.Session, core: str) -> None:
    """What another ansible-core may see differently: documentation, imports, tasks, plugins."""
    found = core_environment(session, core)
    if found is None:
        session.skip(f"there is no interpreter for ansible-core {core}")
    tests = ("ansible-doc", "import", "runtime-metadata", "validate-modules")
    options = [option for test in tests for option in ("--test", test)]
    interpreters = {found.version: found.tools}
    run_sanity(session, found.tools, interpreters, ("--python", found.version, *options))
    wait_for_lab_build(session)
    folders = (
        "tests/unit/plugins",
        "tests/integration/test_task_modes.py",
        "tests/integration/test_checked_first.py",
    )
    inventory = "tests/integration/test_node_configs_inventory.py"
    run_pytest(session, *folders, inventory, WATTWISE_TEST_PYTHON=str(found.tools / "python"))


@gate("test")
def lab_build(session: nox.Session) -> None:
    """Starts to build the lab's control plane in the background; `integration` waits for it."""
    start_lab_build()


@gate("lint", "test")
def ruff(session: nox.Session) -> None:
    """Style and likely mistakes of all Python files, and their formatting."""
    run_each(
        session,
        ("ruff", "check", "--quiet", "--no-cache", "."),
        ("ruff", "format", "--quiet", "--no-cache", "--diff", "."),
    )


@gate("lint", "test")
def mypy(session: nox.Session) -> None:
    """Types: the library as Ansible imports it, then the lab, scripts and tests."""
    caches = BUILD / "mypy"
    run_each(
        session,
        ("mypy", f"--cache-dir={caches / 'plugins'}", "-p", PLUGINS_PACKAGE),
        ("mypy", f"--cache-dir={caches / 'others'}", "noxfile.py", "lab", "scripts", "tests"),
        MYPYPATH=os.pathsep.join(map(str, (BUILD, MIRROR, MIRROR / "tests"))),
    )


@gate("lint", "test")
def rooms(session: nox.Session) -> None:
    """Imports between the rooms of the library, and the picture that is drawn of them."""
    run_each(
        session,
        ("lint-imports", "--no-cache"),
        ("python", "-m", "scripts.draw_architecture", "--check"),
    )


@gate("lint", "test")
def changelog(session: nox.Session) -> None:
    """The changelog's fragments: that there is one, and that all are well formed."""
    if not any((MIRROR / "changelogs" / "fragments").glob("*.yml")):
        session.error("changelogs/fragments/ holds no fragment: say there what a release brings")
    run(session, "antsibull-changelog", "lint")


@gate("lint", "test")
def ansible_lint(session: nox.Session) -> None:
    """ansible-lint's production profile, and yamllint through it."""
    run(session, "ansible-lint", "--offline", "--profile", "production", "--strict", "-q")


@gate("lint", "test")
def sanity(session: nox.Session) -> None:
    """ansible-test's sanity tests; compile and import on every interpreter that is found."""
    # Imports on all interpreters take as long as everything else, and either keeps one core busy.
    lanes = (("--skip-test", "import"), ("--test", "import"))
    chosen = (tuple(session.posargs),) if session.posargs else lanes
    run_sanity(session, TOOLS, ansible_test_home.interpreter_folders(), *chosen)


@gate("lint", "test")
def docs(session: nox.Session) -> None:
    """The plugins' documentation: checks it, and builds its pages in build/docs."""
    pages = BUILD / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(mode=0o755)
    tools = REPOSITORY / ".venvs" / "docs" / "bin"
    antsibull = str(tools / "antsibull-docs")
    variables = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    build = ("--use-current", "--squash-hierarchy", "--output-format", "simplified-rst")
    run_each(
        session,
        (antsibull, "lint-collection-docs", "--plugin-docs", "."),
        (antsibull, "collection", *build, "--dest-dir", str(pages), "wattwise.kube"),
        **variables,
    )


@gate("lint", "test")
def licences(session: nox.Session) -> None:
    """That every file says its licence, and that the text of each licence is here."""
    # In the work tree: reuse asks git what is ignored, and git knows no file of the mirror.
    session.chdir(REPOSITORY)
    run(session, "reuse", "lint", "--lines")


@gate("lint", "test")
def galaxy_importer(session: nox.Session) -> None:
    """The archive of a release, checked as Galaxy and Automation Hub check an upload."""
    folder = BUILD / "galaxy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tools = REPOSITORY / ".venvs" / "galaxy-importer" / "bin"
    variables = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "GALAXY_IMPORTER_ANSIBLE_LOCAL_TMP": str(folder / "tmp"),
        "GALAXY_IMPORTER_CHECK_REQUIRED_TAGS": "true",
    }
    build = (str(tools / "ansible-galaxy"), "collection", "build", "--output-path", str(folder))
    run(session, *build, **variables)
    [archive] = folder.glob("*.tar.gz")
    session.chdir(folder)
    log = folder / "importer.log"
    with log.open("w") as output:
        session.run(
            *(str(tools / "python"), "-m", "galaxy_importer.main", str(archive)),
            env={**environment(), **variables},
            external=True,
            stdout=output,
            stderr=output,
        )
    complaints = [
        line for line in log.read_text().splitlines() if line.startswith(("WARNING", "ERROR"))
    ]
    if complaints:
        session.error("\n".join(complaints))


@gate("test")
def unit(session: nox.Session) -> None:
    """Unit and conformance tests, with branch coverage of the library."""
    data = REPORTS / "coverage"
    for stale in REPORTS.glob("coverage*"):
        stale.unlink()
    run_pytest(
        session,
        *("--numprocesses=2", "--dist=worksteal", "-o", "faulthandler_timeout=300"),
        *("-m", "not slow"),
        *("tests/unit", "tests/conformance"),
        launcher=("coverage", "run", f"--data-file={data}", "-m"),
    )
    run(session, "coverage", "combine", "--quiet", f"--data-file={data}")
    run(session, "coverage", "report", f"--data-file={data}")


@gate("test")
def browser(session: nox.Session) -> None:
    """The report in headless Chromium: layout and accessibility; pictures in build/pictures."""
    if chromium.find() is None and chromium.install() is None:
        session.skip(f"there is no Chromium here; {chromium.REMEDY}")
    run_pytest(session, *(session.posargs or ["tests/browser"]))


@gate("test")
def integration(session: nox.Session) -> None:
    """Tests on the lab: a real control plane, simulated machines."""
    wait_for_lab_build(session)
    # Each worker has a lab of its own; a file's tests stay together for what they set up once.
    options = ("--numprocesses=2", "--dist=loadfile", "-m", "not slow")
    run_pytest(session, *options, *(session.posargs or ["tests/integration"]))


@gate("test")
def oldest_core(session: nox.Session) -> None:
    """The oldest ansible-core that we promise: documentation, imports, tasks, plugins."""
    try_core(session, min(other_cores.OTHER_CORES))


@gate("test")
def newest_core(session: nox.Session) -> None:
    """The newest ansible-core that we promise: documentation, imports, tasks, plugins."""
    try_core(session, max(other_cores.OTHER_CORES))


@gate("test")
def molecule(session: nox.Session) -> None:
    """Every role's molecule scenario, on the lab."""
    wait_for_lab_build(session)
    state = BUILD / "molecule-lab"
    # Molecule remembers there which scenarios it prepared; their lab is a new one each time.
    home = BUILD / "molecule-home"
    shutil.rmtree(home, ignore_errors=True)
    variables = {"WATTWISE_TEST_LAB_STATE": str(state), "ANSIBLE_HOME": str(home)}
    lab = ("python", "-m", "lab")
    try:
        run(session, *lab, "up", "--state", str(state), "--nodes", "12", "--racks", "2")
        command = ("molecule", "test", "--all", "--report")
        run(session, *command, *session.posargs, **variables)
    finally:
        run(session, *lab, "down", "--state", str(state))


@gate("test-deep")
def deep(session: nox.Session) -> None:
    """The tests that take minutes each."""
    wait_for_lab_build(session)
    run_pytest(session, "-m", "slow", "-o", "faulthandler_timeout=3600", "tests")


@gate("test-deep")
def oldest_kubernetes(session: nox.Session) -> None:
    """The oldest Kubernetes that we promise: the tests that show what its API server takes."""
    wait_for_lab_build(session)
    run(session, "python", "-m", "lab", "build", "--kubernetes", OLDEST.minor)
    options = ("--numprocesses=2", "--dist=loadfile", "-m", "not slow")
    files = [f"tests/integration/test_{name}.py" for name in API_TESTS]
    run_pytest(session, *options, *(session.posargs or files), LAB_KUBERNETES=OLDEST.minor)


@gate("test-deep")
def odd_values(session: nox.Session) -> None:
    """Bad objects beside good ones: many times the examples, with a fresh seed that is printed."""
    first = os.environ.get("WATTWISE_ODD_SEED") or str(secrets.randbelow(10**9))
    session.log(f"WATTWISE_ODD_SEED={first}")
    found = map(str, sorted(Path("tests/unit").rglob("test_bad_beside_good_*.py")))
    options = ("--numprocesses=2", "--dist=worksteal")
    run_pytest(session, *options, *found, WATTWISE_ODD_SEED=first, WATTWISE_ODD_FACTOR="20")


@gate("test-deep")
def cores(session: nox.Session) -> None:
    """All sanity tests of the oldest and the newest ansible-core that we promise."""
    for core in other_cores.OTHER_CORES:
        found = core_environment(session, core)
        if found is not None:
            # pep8 of 2.18 refuses what formatters write; ruff looks after style.
            options = ("--skip-test", "pep8", *session.posargs)
            run_sanity(session, found.tools, ansible_test_home.interpreter_folders(), options)


@gate()
def bench(session: nox.Session) -> None:
    """Measures against peers and writes docs/performance.md."""
    wait_for_lab_build(session)
    run(session, "python", "-m", "bench", *session.posargs, PYTHONPATH=f"{BUILD}:{MIRROR}/tests")


@gate()
def architecture(session: nox.Session) -> None:
    """Draws docs/architecture.md from the imports between rooms."""
    session.chdir(REPOSITORY)
    run(session, "python", "-m", "scripts.draw_architecture")


@gate()
def pytest(session: nox.Session) -> None:
    """pytest in the mirror with the arguments after `--`."""
    run(session, "python", "-m", "pytest", "-p", "no:cacheprovider", *session.posargs)
