# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates and tests. The Makefile starts them with `--no-venv` from .venvs/development.

Every session runs in the mirror (scripts/collection_tree.py says why). Reports, caches and the
private home of ansible-test lie in build/. scripts/gates.py starts the sessions of a tag in the
order of this file, as many at a time as the processors allow; narrow gates overtake wide ones.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import shutil
import sys
import sysconfig
import typing as t
from collections.abc import Callable
from pathlib import Path

import nox

REPOSITORY = Path(__file__).resolve().parent
sys.path.insert(0, str(REPOSITORY))

from lab import gotools  # noqa: E402 - found through the line above
from lab.lifecycle import PARTS  # noqa: E402 - the same
from lab.locks import file_lock  # noqa: E402 - the same
from lab.operator import ANSIBLE_OPERATOR  # noqa: E402 - the same
from lab.releases import OLDEST  # noqa: E402 - the same
from scripts import ansible_test_home, build_image, chromium, containers, other_cores  # noqa: E402 - the same
from scripts.collection_tree import MIRROR, synchronize  # noqa: E402 - the same

BUILD = REPOSITORY / "build"
REPORTS = BUILD / "reports"
TOOLS = Path(sys.executable).parent
DOCS_TOOLS = REPOSITORY / ".venvs" / "docs" / "bin"
UV_FOLDER = REPOSITORY / ".venvs" / "uv" / "bin"
GALAXY_TOOLS = REPOSITORY / ".venvs" / "galaxy-importer" / "bin"
# tests/support/examples.py reads these: the number of examples and their first seed.
FACTOR_VARIABLE, SEED_VARIABLE = "WATTWISE_EXAMPLES_FACTOR", "WATTWISE_EXAMPLES_SEED"
FEW_EXAMPLES = {FACTOR_VARIABLE: "0.1"}
MASS = "10"
# Set before a release: no gate may be left out.
RELEASE_VARIABLE = "WATTWISE_RELEASE"
# Words of files whose tests run without coverage.
UNCOVERED_WORDS = ("hypothesis", "support.examples", "mark.large")
REFERENCE = REPOSITORY.parent / "shared" / "reference"
# Integration tests that depend on the objects that an API server accepts, serves and defaults.
API_TESTS = (
    *("lab_controlplane", "pod_fields", "kube_apply", "binding", "eviction", "permissions"),
    *("wao_crds", "device_crds", "rmd_crds", "agent_policies", "devices_policies"),
    *("device_reconciliation", "dra_reconciliation", "dra_features", "rmd_pods", "main_job"),
    "scheduler_extender",
)
# The integration tests that take half a minute or more, the longest first: a worker that begins one
# of them last leaves the other idle. Those that start the operator stand apart, because a computer
# runs one operator at a time.
LONG_TESTS = (
    *("sleep", "sleep_day", "rmd_role", "installed_collection", "operator", "main_job"),
    *("permissions", "observe", "sleep_playbooks", "operator_robustness", "cut_off_runs"),
    *("lab_controlplane", "power_fleets", "provisioning", "without_predictor", "lab_power"),
    *("shipped_limits", "power_limits", "kepler_addons", "lab_kepler", "kepler_reconciliation"),
    *("operator_account", "host_agents"),
)
# Files for ansible-test: without tests, which are not plugins of the collection, and without YAML
# files of several objects, which Ansible's rules refuse. Ruff and mypy check the files left out.
USED = tuple(
    f"--exclude={path}" for path in ("lab/", "noxfile.py", "operator/", "scripts/", "tests/")
)
PLUGINS_PACKAGE = "ansible_collections.wattwise.kube.plugins"

os.environ["PATH"] = os.pathsep.join([str(TOOLS), os.environ.get("PATH", os.defpath)])
if not sys.stdout.isatty():
    os.environ.setdefault("NO_COLOR", "1")
# Time that an interrupted command has to stop its children, such as a lab.
INTERRUPT_SECONDS = 60
nox.options.sessions = []


SessionFunction = Callable[[nox.Session], None]


def gate(*tags: str) -> Callable[[SessionFunction], SessionFunction]:
    """A session in the mirror that first logs its docstring."""

    def decorate(function: SessionFunction) -> SessionFunction:
        def session_function(session: nox.Session) -> None:
            session.log(str(function.__doc__))
            # All gates of one `make test` use the same mirror, even if a file is edited meanwhile.
            if not os.environ.get("WATTWISE_MIRROR_IS_CURRENT"):
                synchronize()
            REPORTS.mkdir(parents=True, exist_ok=True)
            session.chdir(MIRROR)
            function(session)

        session_function.__doc__ = function.__doc__
        return nox.session(name=function.__name__, tags=tags)(session_function)

    return decorate


def environment() -> dict[str, str | None]:
    """Environment in which tools find our collection, those of package `ansible`, and the lab."""
    variables: dict[str, str | None] = {
        "PYTHONPATH": str(BUILD),
        "PYTHONDONTWRITEBYTECODE": None,
        "ANSIBLE_COLLECTIONS_PATH": f"{BUILD}{os.pathsep}{sysconfig.get_path('purelib')}",
        "WATTWISE_REPOSITORY": str(REPOSITORY),
        # The lab's control plane collects garbage a quarter as often. That saves a fifth of its
        # processor time and costs three times the memory.
        "GOGC": "400",
        "GOMEMLIMIT": "2GiB",
    }
    if "WATTWISE_REFERENCE" not in os.environ and REFERENCE.is_dir():
        variables["WATTWISE_REFERENCE"] = str(REFERENCE)
    return variables


def run(session: nox.Session, *command: str, **variables: str) -> None:
    """Run a tool of the development environment."""
    session.run(
        *command,
        env={**environment(), **variables},
        external=True,
        interrupt_timeout=INTERRUPT_SECONDS,
    )


def run_each(session: nox.Session, *commands: tuple[str, ...], **variables: str) -> None:
    """Run all the commands, then fail if one of them failed."""
    failures = []
    for command in commands:
        try:
            run(session, *command, **variables)
        except nox.command.CommandFailed as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def run_pytest(
    session: nox.Session,
    *arguments: str,
    launcher: tuple[str, ...] = (),
    variables: dict[str, str] | None = None,
) -> None:
    """Run pytest with a report that scripts/gates.py sums up."""
    report = REPORTS / f"{session.name}.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-p", "no:cacheprovider", f"--junit-xml={report}")
    command = ("python", "-m", *launcher, "pytest", *options, *arguments)
    run(session, *command, **(variables or {}))


def as_version(text: str) -> tuple[int, ...]:
    """Version as numbers: 3.10 is newer than 3.9."""
    return tuple(map(int, text.split(".")))


def leave_out(session: nox.Session, reason: str) -> t.NoReturn:
    """Skip a gate that cannot run here; before a release that is an error."""
    if os.environ.get(RELEASE_VARIABLE):
        session.error(f"{reason}; a release needs this gate ({RELEASE_VARIABLE} is set)")
    session.skip(reason)


def build_lab(session: nox.Session) -> None:
    """Compile the lab's control plane: minutes with an empty cache, no time after that."""
    run(session, "nice", "python", "-m", "lab", "build")


def run_sanity(
    session: nox.Session, tools: Path, interpreters: dict[str, Path], *runs: tuple[str, ...]
) -> None:
    """Run sanity tests of the ansible-core with commands in `tools`, once per set of options."""
    session.log(f"interpreters found: {', '.join(interpreters)}")
    # Two ansible-cores must not create the same virtual environment at the same time.
    home = BUILD / "home" / tools.parent.name
    variables = ansible_test_home.prepare(home, tools, interpreters, UV_FOLDER / "python")
    command = (str(tools / "ansible-test"), "sanity", "--local", "--requirements", "--color", "no")
    run_each(session, *((*command, *options) for options in runs), **variables)


def core_environment(session: nox.Session, core: str) -> other_cores.CoreEnvironment | None:
    """An environment with that ansible-core; None if no interpreter for it was found."""
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
    """Tests whose results may depend on ansible-core: documentation, imports, tasks, plugins."""
    found = core_environment(session, core)
    if found is None:
        leave_out(session, f"there is no interpreter for ansible-core {core}")
    # validate-modules imports every module; `make test-deep` imports each file by itself.
    tests = ("ansible-doc", "runtime-metadata", "validate-modules")
    options = [option for test in tests for option in ("--test", test)]
    interpreters = {found.version: found.tools}
    run_sanity(session, found.tools, interpreters, ("--python", found.version, *options))
    build_lab(session)
    checked = "tests/integration/test_checked_first.py"
    files = (
        "tests/unit/plugins",
        "tests/integration/test_task_modes.py",
        f"{checked}::test_wrong_variables_are_all_told_before_anything_is_touched",
        f"{checked}::test_the_tag_of_a_playbooks_name_is_all_of_it",
    )
    variables = {"WATTWISE_TEST_PYTHON": str(found.tools / "python"), **FEW_EXAMPLES}
    run_pytest(session, *files, variables=variables)


@gate("test")
def lab_build(session: nox.Session) -> None:
    """The lab's control plane, compiled once; the gates that start a lab wait for it."""
    build_lab(session)


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
    # A shared cache: the second run finds the library's types there.
    command = ("mypy", f"--cache-dir={BUILD / 'mypy'}")
    run_each(
        session,
        (*command, "-p", PLUGINS_PACKAGE),
        (*command, "noxfile.py", "lab", "scripts", "tests"),
        MYPYPATH=os.pathsep.join(map(str, (BUILD, MIRROR, MIRROR / "tests"))),
    )


@gate("lint", "test")
def rooms(session: nox.Session) -> None:
    """Imports between the rooms of the library, and the diagram drawn from them."""
    run_each(
        session,
        ("lint-imports", "--no-cache"),
        ("python", "-m", "scripts.draw_architecture", "--check"),
    )


@gate("lint", "test")
def options(session: nox.Session) -> None:
    """The forms of each option, compared with its table in scripts/options."""
    run(session, "python", "-m", "scripts.generate_options", "--check")


@gate("lint", "test")
def changelog(session: nox.Session) -> None:
    """The changelog's fragments: at least one exists, and all are well formed."""
    if not any((MIRROR / "changelogs" / "fragments").glob("*.yml")):
        session.error("changelogs/fragments/ has no fragment; add one about the change")
    run(session, "antsibull-changelog", "lint")


@gate("test")
def integration(session: nox.Session) -> None:
    """Tests on the lab: a real control plane, simulated machines."""
    # The longest gate comes first, because it waits now and then and narrow gates beside it do not.
    build_lab(session)
    # Each worker has its own lab; the tests of a file stay together because they share its set-up.
    # By default pytest-xdist begins with the files of most tests, and ends with long single ones.
    options = ("--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder", "-m", "not slow")
    long = [f"tests/integration/test_{name}.py" for name in LONG_TESTS]
    others = sorted({*map(str, Path("tests/integration").glob("test_*.py"))}.difference(long))
    run_pytest(session, *options, *(session.posargs or [*long, *others]))


@gate("test")
def unit(session: nox.Session) -> None:
    """Unit and conformance tests, with branch coverage of the library."""
    data = REPORTS / "coverage"
    for stale in REPORTS.glob("coverage*"):
        stale.unlink()
    run_pytest(
        session,
        *("--numprocesses=2", "--dist=worksteal", "-o", "faulthandler_timeout=300"),
        *("-m", "not slow and not large"),
        *("tests/unit", "tests/conformance"),
        launcher=("coverage", "run", f"--data-file={data}", "-m"),
        variables=FEW_EXAMPLES,
    )
    run(session, "coverage", "combine", "--quiet", f"--data-file={data}")
    run(session, "coverage", "report", f"--data-file={data}")


def run_generated(session: nox.Session, marks: str, *options: str, **variables: str) -> None:
    """Tests with these marks, without coverage, which doubles their time."""
    files = [
        str(path)
        for path in sorted(
            (*Path("tests/unit").rglob("*.py"), *Path("tests/conformance").glob("*.py"))
        )
        if any(word in path.read_text() for word in UNCOVERED_WORDS)
    ]
    selected = ("-m", f"({marks}) and not slow")
    run_pytest(session, *options, *selected, *session.posargs, *files, variables=variables)


@gate("test")
def generated(session: nox.Session) -> None:
    """Large fleets, and all examples that tests generate in every run, the same in each."""
    # In one process, which has room beside the integration tests.
    run_generated(session, "generated or large")


@gate("test")
def molecule(session: nox.Session) -> None:
    """The chain of molecule: a stage for every role and for the operator, on one lab."""
    build_lab(session)
    state = BUILD / "molecule-lab"
    # Molecule remembers there what it prepared, and each run has a new lab.
    home = BUILD / "molecule-home"
    shutil.rmtree(home, ignore_errors=True)
    variables = {"WATTWISE_TEST_LAB_STATE": str(state), "ANSIBLE_HOME": str(home)}
    lab = ("python", "-m", "lab")
    try:
        size = ("--nodes", "12", "--racks", "2", "--bare-metal-hosts", "8")
        parts = [f"--only={part}" for part in (*PARTS, "awx")]
        run(session, *lab, "up", "--state", str(state), *size, *parts)
        command = ("molecule", "test", "--all", "--report")
        run(session, *command, *session.posargs, **variables)
    finally:
        run(session, *lab, "down", "--state", str(state))


@gate("test")
def browser(session: nox.Session) -> None:
    """The report in headless Chromium: layout and accessibility; pictures in build/pictures."""
    if chromium.find() is None and chromium.install() is None:
        reason = (
            f"no page of the report was looked at: there is no Chromium here; {chromium.REMEDY}"
        )
        if os.environ.get("CI"):
            session.error(reason)
        leave_out(session, reason)
    run_pytest(session, *(session.posargs or ["tests/browser"]))


@gate("lint", "test")
def ansible_lint(session: nox.Session) -> None:
    """ansible-lint's production profile, and yamllint through it."""
    run(session, "ansible-lint", "--offline", "--profile", "production", "--strict", "-q")


@gate("lint", "test")
def sanity(session: nox.Session) -> None:
    """ansible-test's sanity tests of shipped code; compile on every interpreter found."""
    # Gates `imports` and `pylint` run the others, and `make test-deep` all tests on all files.
    chosen = tuple(session.posargs) or ("--skip-test", "import", "--skip-test", "pylint", *USED)
    run_sanity(session, TOOLS, ansible_test_home.interpreter_folders(), chosen)


@gate("lint", "ci")
def pylint(session: nox.Session) -> None:
    """pylint of shipped code; ruff and mypy find nearly all of it in a tenth of the time."""
    run_sanity(session, TOOLS, ansible_test_home.interpreter_folders(), ("--test", "pylint", *USED))


@gate("lint", "test")
def imports(session: nox.Session) -> None:
    """ansible-test imports each file by itself on the oldest interpreter found.

    The tests import all files on newer ones, and `make test-deep` each file by itself.
    """
    interpreters = ansible_test_home.interpreter_folders()
    oldest = min(interpreters, key=as_version)
    run_sanity(session, TOOLS, interpreters, ("--test", "import", "--python", oldest))


@gate("lint", "test")
def manifests(session: nox.Session) -> None:
    """hadolint on the Dockerfile, kube-score on the overlays and the documents' manifests."""
    run(session, "python", "-m", "scripts.manifests")


@gate("lint", "test")
def packages(session: nox.Session) -> None:
    """The Helm chart, OLM's bundle and the SBOM, compared with what they are made from."""
    run_pytest(session, *(session.posargs or ["tests/packages"]))


@gate("lint", "test")
def docs(session: nox.Session) -> None:
    """The plugins' documentation, as antsibull-docs checks it."""
    path = f"{DOCS_TOOLS}{os.pathsep}{os.environ['PATH']}"
    antsibull = str(DOCS_TOOLS / "antsibull-docs")
    run(session, antsibull, "lint-collection-docs", "--plugin-docs", ".", PATH=path)


@gate("lint", "test")
def site(session: nox.Session) -> None:
    """The documentation site in build/site: every page is built, and every link leads somewhere."""
    run(session, "python", "-m", "scripts.site", str(DOCS_TOOLS), str(BUILD / "site"))


@gate("lint", "test")
def licences(session: nox.Session) -> None:
    """Every file has a licence header, and the text of each licence is in the repository."""
    # Runs in the work tree: reuse asks git for ignored files, and git does not know the mirror's
    # files.
    session.chdir(REPOSITORY)
    run(session, "reuse", "lint", "--lines")


@gate("lint", "test")
def galaxy_importer(session: nox.Session) -> None:
    """The archive of a release, checked as Galaxy and Automation Hub check an upload."""
    folder = BUILD / "galaxy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    build = (str(GALAXY_TOOLS / "ansible-galaxy"), "collection", "build")
    run(session, *build, "--output-path", str(folder))
    [archive] = folder.glob("*.tar.gz")
    judge_archive(session, archive)


def judge_archive(session: nox.Session, archive: Path) -> None:
    """Check an archive of the collection as Galaxy checks an upload; each warning is an error."""
    folder = BUILD / "galaxy"
    folder.mkdir(exist_ok=True)
    variables = {
        "PATH": f"{GALAXY_TOOLS}{os.pathsep}{os.environ['PATH']}",
        "GALAXY_IMPORTER_ANSIBLE_LOCAL_TMP": str(folder / "tmp"),
        "GALAXY_IMPORTER_CHECK_REQUIRED_TAGS": "true",
        # The session ansible_lint checks the same files by the same profile.
        "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false",
    }
    session.chdir(folder)
    log = folder / "importer.log"
    try:
        with log.open("w") as output:
            session.run(
                *(str(GALAXY_TOOLS / "python"), "-m", "galaxy_importer.main", str(archive)),
                env={**environment(), **variables},
                external=True,
                stdout=output,
                stderr=output,
            )
    except nox.command.CommandFailed:
        session.error(log.read_text())
    complaints = [
        line for line in log.read_text().splitlines() if line.startswith(("WARNING", "ERROR"))
    ]
    if complaints:
        session.error("\n".join(complaints))


def build_images(session: nox.Session) -> dict[str, str]:
    """Build the image and the execution environment; variables that name them.

    The two gates that need them run side by side.
    """
    build_lab(session)
    with file_lock(gotools.cache_folder() / "images.lock", session.log, "another build of images"):
        return _build_images(session)


def _build_images(session: nox.Session) -> dict[str, str]:
    if problem := containers.problem():
        leave_out(session, problem)
    program = gotools.build(ANSIBLE_OPERATOR, session.log)
    # Two clones on one machine build at the same time.
    tag = hashlib.sha256(str(REPOSITORY).encode()).hexdigest()[:12]
    names = {target: f"localhost/{name}:{tag}" for target, name in build_image.TARGETS.items()}
    session.chdir(REPOSITORY)
    for target, name in names.items():
        with (REPORTS / f"{target}.build.log").open("w") as output:
            built = build_image.build(
                *(containers.BUILD, target, name, containers.BASE, program),
                pip_python=str(UV_FOLDER / "python"),
                output=output,
            )
        if built != 0:
            session.error(f"target {target} cannot be built:\n{Path(output.name).read_text()}")
    session.chdir(MIRROR)
    return {
        "WATTWISE_IMAGE": names["operator"],
        "WATTWISE_EE_IMAGE": names["execution-environment"],
    }


@gate("ci")
def image(session: nox.Session) -> None:
    """The image and the execution environment: built, then each program at work on the lab."""
    run_pytest(session, *(session.posargs or ["tests/image"]), variables=build_images(session))


@gate("ci", "test-deep")
def real_node(session: nox.Session) -> None:
    """The operator's overlays on a real kubelet, from the installation to its removal."""
    if problem := containers.problem_of_programs(containers.NODE_PROGRAMS):
        leave_out(session, problem)
    images = build_images(session)
    times = REPORTS / "real_node.md"
    times.unlink(missing_ok=True)
    variables = {**images, "WATTWISE_TIMES": str(times)}
    run_pytest(session, "-x", *(session.posargs or ["tests/real_node"]), variables=variables)
    if times.exists():
        session.log(times.read_text())


@gate("ci")
def released(session: nox.Session) -> None:
    """A release made twice: equal bytes, each file at work in an empty environment."""
    variables = {}
    if problem := containers.problem():
        if os.environ.get(RELEASE_VARIABLE):
            leave_out(session, problem)
        session.log(f"the release is made without the image: {problem}")
        variables["WATTWISE_WITHOUT"] = "image"
    run_pytest(session, *(session.posargs or ["tests/release"]), variables=variables)


def walk_the_readme(session: nox.Session, **variables: str) -> None:
    """Type the README's commands as a new user; log a table of minutes and megabytes."""
    table = REPORTS / f"{session.name}.md"
    table.unlink(missing_ok=True)
    variables["WATTWISE_WALK_TABLE"] = str(table)
    run_pytest(session, *(session.posargs or ["tests/walk"]), variables=variables)
    session.log(table.read_text())


@gate("ci")
def walk(session: nox.Session) -> None:
    """The README's commands in an empty home folder, with the caches of this machine."""
    build_lab(session)
    walk_the_readme(session, WATTWISE_WALK_CACHES=str(gotools.cache_folder().parent))


@gate("test-deep")
def cold_walk(session: nox.Session) -> None:
    """The README's commands in an empty home folder, with empty caches."""
    walk_the_readme(session)


@gate("ci")
def oldest_core(session: nox.Session) -> None:
    """The oldest supported ansible-core: documentation, imports, tasks, plugins."""
    try_core(session, min(other_cores.OTHER_CORES))


@gate("ci")
def newest_core(session: nox.Session) -> None:
    """The newest supported ansible-core: documentation, imports, tasks, plugins."""
    try_core(session, max(other_cores.OTHER_CORES))


@gate("test-deep")
def deep(session: nox.Session) -> None:
    """The tests that take minutes each."""
    build_lab(session)
    run_pytest(session, "-m", "slow", "-o", "faulthandler_timeout=3600", "tests")


@gate("test-deep")
def oldest_kubernetes(session: nox.Session) -> None:
    """The oldest supported Kubernetes: the tests that depend on its API server."""
    run(session, "python", "-m", "lab", "build", "--kubernetes", OLDEST.minor)
    options = ("--numprocesses=2", "--dist=loadfile", "-m", "not slow")
    files = [f"tests/integration/test_{name}.py" for name in API_TESTS]
    run_pytest(
        session, *options, *(session.posargs or files), variables={"LAB_KUBERNETES": OLDEST.minor}
    )


@gate("test-deep")
def generated_in_mass(session: nox.Session) -> None:
    """Many times the generated examples, from a fresh seed that is printed."""
    seed = os.environ.get(SEED_VARIABLE) or str(secrets.randbelow(10**9))
    factor = os.environ.get(FACTOR_VARIABLE) or MASS
    session.log(f"{SEED_VARIABLE}={seed} {FACTOR_VARIABLE}={factor} repeats these examples")
    session.posargs.append(f"--hypothesis-seed={seed}")
    variables = {SEED_VARIABLE: seed, FACTOR_VARIABLE: factor}
    run_generated(session, "generated", "--numprocesses=2", "--dist=worksteal", **variables)


@gate("test-deep")
def cores(session: nox.Session) -> None:
    """All sanity tests of shipped code, with the locked ansible-core and the two others."""
    interpreters = ansible_test_home.interpreter_folders()
    run_sanity(session, TOOLS, interpreters, (*USED, *session.posargs))
    for core in other_cores.OTHER_CORES:
        found = core_environment(session, core)
        if found is not None:
            # pep8 of 2.18 refuses the formatter's output; ruff checks style.
            options = ("--skip-test", "pep8", *USED, *session.posargs)
            run_sanity(session, found.tools, interpreters, options)


@gate()
def release(session: nox.Session) -> None:
    """Makes the files of a release in build/release; the first argument is the version."""
    session.chdir(REPOSITORY)
    run(session, "python", "-m", "scripts.release", *session.posargs)
    for archive in (BUILD / "release" / session.posargs[0]).glob("wattwise-kube-*[0-9].tar.gz"):
        judge_archive(session, archive)


@gate()
def version(session: nox.Session) -> None:
    """Writes the version of the argument to the files that have it, and its notes."""
    session.chdir(REPOSITORY)
    run(session, "python", "-m", "scripts.release.version", *session.posargs)
    run(session, "antsibull-changelog", "release")


@gate()
def bench(session: nox.Session) -> None:
    """Measures against peers and writes docs/project/performance.md."""
    build_lab(session)
    # The API server of the largest cluster holds more than the limit of other labs, and would do
    # little else than collect garbage.
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    variables = {"PYTHONPATH": f"{BUILD}:{MIRROR}/tests", "GOMEMLIMIT": str(memory // 4)}
    run(session, "python", "-m", "bench", *session.posargs, **variables)


@gate()
def generate(session: nox.Session) -> None:
    """Writes the forms of each option, and the CRDs, from scripts/options and scripts/crds."""
    session.chdir(REPOSITORY)
    run(session, "python", "-m", "scripts.generate_options")
    run(session, "python", "-m", "scripts.generate_crds")


@gate()
def architecture(session: nox.Session) -> None:
    """Draws docs/project/architecture.md from the imports between rooms."""
    session.chdir(REPOSITORY)
    run(session, "python", "-m", "scripts.draw_architecture")


@gate()
def pytest(session: nox.Session) -> None:
    """pytest in the mirror with the arguments after `--`."""
    run(session, "python", "-m", "pytest", "-p", "no:cacheprovider", *session.posargs)
