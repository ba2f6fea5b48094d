"""Build and use what `deploy/` promises: `make deploy-check`. Needs the extra `deploy`; parts whose
tools are not on this machine, or for which the time did not suffice (--minutes, by default ten),
are named at the end, and are not counted as passed.

manifests  the compose file against its published schema; the Helm chart linted, rendered by Helm
           and checked against Kubernetes' schemas; the Dask cluster against its operator's own
           definition, its pods, volume and job against Kubernetes' schemas
unit       the kit's systemd units by systemd itself, and three members served inside a sandbox
           with the unit's file systems and its system calls (bubblewrap, libseccomp; root)
image      the Dockerfile built by buildah, and three members run from the image's own files: root
           read only, user 10001, no capability (buildah, bubblewrap; root). Without --base the base
           image is made here from Debian's packages (mmdebstrap), since no registry is needed then
cluster    the image of deploy/kubernetes, built in the same way; a scheduler and two workers of
           Dask from it, and the job's own command, which compares methods on them
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "tacenda-node"
KUBERNETES = "1.31"
USER = 10001
WORST_EXPOSURE = 2.0  # of systemd-analyze's 10
PREPARE = """
import sys, json
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from node_stage import small_contract, small_schema
from tacenda_node.setup.rehearse import prepare
folder = Path(sys.argv[1])
schema = folder / "schema.toml"
small_schema().write(schema)
stage = prepare(small_contract(3, rounds=10), schema, folder / "stage")
members = {n: {"data": str(stage.data[n]), "address": stage.contract.member(n).address}
           for n in stage.contract.names}
print(json.dumps({"contract": str(stage.contract_path), "schema": str(stage.schema),
                  "members": members}))
"""

RECORDS = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from node_stage import small_schema
from tacenda.data.random_records import write_random_records
from tacenda_node.setup.rehearse import free_ports
folder, names = Path(sys.argv[1]), ["north", "east", "south"]
small_schema().write(folder / "schema.toml")
for k, name in enumerate(names):
    write_random_records(small_schema(), 300, k, folder / f"{name}.csv")
print(json.dumps(dict(zip(names, free_ports(3)))))
"""

COMPARED = """
[data]
name = "classification"
options = { n = 400, features = 4, difficulty = 0.2 }

[network]
graph = "ring:4"

[privacy]
epsilon = 2.0

[[compare]]
name = "ipadmm"
rounds = 5

[[compare]]
name = "cdpadmm"
rounds = 5

[run]
seeds = [0, 1]
"""


class Missing(Exception):
    """A tool is not on this machine, or the time is over."""


END = float("inf")  # on the monotonic clock


def _left() -> float:
    """Seconds that are left for all parts."""
    left = END - time.monotonic()
    if left <= 0:
        raise Missing("the time was over (--minutes gives more)")
    return left


def main(arguments: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts: dict[str, Callable[[argparse.Namespace], str]] = {
        "manifests": manifests,
        "unit": unit,
        "image": image,
        "cluster": cluster,
    }
    asked.add_argument("parts", nargs="*", help=f"{', '.join(parts)}; all if none is named")
    asked.add_argument("--base", help="the base image to build on, instead of one made here")
    asked.add_argument(
        "--volume", action="append", default=[], help="HOST:CONTAINER:ro for the build's packages"
    )
    asked.add_argument("--minutes", type=float, default=10.0, help="for all parts together")
    given = asked.parse_args(arguments)
    global END
    END = time.monotonic() + 60 * given.minutes
    if unknown := set(given.parts) - set(parts):
        asked.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    missing = []
    for name in given.parts or parts:
        began = time.monotonic()
        try:
            _left()
            said = parts[name](given)
        except Missing as absent:
            missing.append(f"{name}: {absent}")
        else:
            print(f"{name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    for sentence in missing:
        print(f"NOT RUN {sentence}")
    if missing:
        sys.exit(3)


def manifests(_: argparse.Namespace) -> str:
    """Compose and Helm."""
    told(
        tool("check-jsonschema"),
        "--builtin-schema",
        "vendor.compose-spec",
        DEPLOY / "compose/compose.yaml",
    )
    helm, validate = tool("helm"), tool("kubernetes-validate")
    told(helm, "lint", "--strict", CHART, "--set", "ledger.budget=3")
    kinds: set[str] = set()
    for scraped in ("false", "true"):
        text = told(
            *(helm, "template", "member", CHART, "--kube-version", f"{KUBERNETES}.0"),
            *("--set", "ledger.budget=3", "--set", f"metrics.scraped={scraped}"),
        )
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            told(validate, "--strict", "-k", KUBERNETES, file.name)
        kinds |= set(re.findall(r"^kind: (\w+)$", text, re.M))
    refused = subprocess.run(
        [helm, "template", "member", CHART, "--kube-version", f"{KUBERNETES}.0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0 and "all runs" in refused.stderr, "a budget must be asked for"
    kinds |= dask_cluster(validate)
    return f"the compose file, and for Kubernetes {KUBERNETES} {', '.join(sorted(kinds))} are valid"


def dask_cluster(validate: str) -> set[str]:
    """The kinds in the manifest of a Dask cluster, each by the schema that its cluster has."""
    import importlib.util

    import jsonschema
    import yaml

    found = importlib.util.find_spec("dask_kubernetes")
    if found is None or found.origin is None:
        raise Missing("dask-kubernetes is not installed (the extra `deploy`)")
    crds = "operator/deployment/helm/dask-kubernetes-operator/crds"
    file = Path(found.origin).parent / crds / "daskcluster.yaml"
    definition = yaml.safe_load(file.read_text())
    [version] = [v for v in definition["spec"]["versions"] if v["served"]]
    objects = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "dask.yaml").read_text()))
    plain = []
    for one in objects:
        if one["kind"] != "DaskCluster":
            plain.append(one)
            continue
        assert one["apiVersion"] == f"{definition['spec']['group']}/{version['name']}"
        whole = version["schema"]["openAPIV3Schema"]
        jsonschema.validate(one["spec"], closed(whole["properties"]["spec"]))
        for part in ("worker", "scheduler"):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": part}}
            plain.append({**pod, "spec": one["spec"][part]["spec"]})
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "scheduler"}}
        plain.append({**service, "spec": one["spec"]["scheduler"]["service"]})
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(yaml.safe_dump_all(plain))
        file.flush()
        told(validate, "--strict", "-k", KUBERNETES, file.name)
    return {one["kind"] for one in objects}


def closed(schema: Any) -> Any:
    """The schema, in which a name that it does not know is an error; a cluster only drops it."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict):
        inner.setdefault("additionalProperties", False)
    return inner


def unit(_: argparse.Namespace) -> str:
    """The units of three members' kits by systemd's own checks, then what they start, under the
    limits of the system's unit: from the queue to a model."""
    analyze, bubblewrap = tool("systemd-analyze"), tool("bwrap")
    root_only()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.chmod(folder, 0o755)
        homes = _three_kits(folder)
        units = {name: home / "kit" / f"tacenda-{name}.service" for name, home in homes.items()}
        for name, path in units.items():
            users = path.with_name(f"tacenda-{name}.user.service")
            _verified(analyze, path, folder)
            _verified(analyze, users, folder, "--user")
        text = units["north"].read_text("utf-8")
        said = told(analyze, "security", "--offline=yes", "--no-pager", units["north"])
        found = re.search(r"exposure level .*?: ([\d.]+)", said)
        assert found is not None and float(found[1]) <= WORST_EXPOSURE, said[-200:]
        filter_file = folder / "filter.bpf"
        _write_filter(analyze, text, filter_file)
        _check_that_the_filter_holds(bubblewrap, filter_file)
        _serve_three(units, homes, [bubblewrap, *_as_the_unit_says(folder)], filter_file)
    return f"exposure {found[1]} of 10, and three members were served under its limits"


def _verified(analyze: str, unit: Path, folder: Path, *more: str) -> None:
    """Systemd understands every line of a unit; what it does not, it names and ignores."""
    words = [analyze, "verify", *more, str(unit)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    assert not done.returncode and unit.name not in done.stderr, done.stderr


def _three_kits(folder: Path) -> dict[str, Path]:
    """Three members' folders as the commands leave them, with a signed contract in each queue."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "XDG_DATA_HOME": str(folder / "share")}
    helpers = str(ROOT / "tests" / "helpers")
    ports = json.loads(
        told(sys.executable, "-c", RECORDS, folder, helpers, env=env).splitlines()[-1]
    )

    def consortium(*words: object) -> None:
        told(sys.executable, "-m", "tacenda", "consortium", *words, env=env, cwd=folder)

    def own(name: str) -> list[object]:
        place = f"localhost:{ports[name]}"
        return ["--name", name, "--data", f"{name}.csv", "--address", place, "--budget", "9"]

    first, *others = ports
    named = [word for name in others for word in ("--member", name)]
    asked = ["--title", "study", "--schema", "schema.toml", "--epsilon", "5", "--held-out", "0"]
    consortium("new", *own(first), *named, *asked)
    for name in others:
        consortium("join", f"{first}/study.invite", *own(name))
    cards = [f"{name}/{name}.card" for name in others]
    consortium("draft", *cards, "--folder", first)
    for name in others:
        consortium("accept", f"{first}/contract.toml", "--folder", name, "--yes")
    return {name: folder / name for name in ports}


def _as_the_unit_says(folder: Path) -> list[str]:
    """A sandbox of ProtectSystem=strict, PrivateTmp and PrivateDevices, with homes hidden."""
    return [
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--perms", "1777", "--tmpfs", "/tmp", "--tmpfs", "/home", "--tmpfs", "/run"),
        *("--tmpfs", "/var/cache"),
        *_shown(folder, sys.prefix, sys.base_prefix, ROOT),
        *("--unshare-pid", "--new-session", "--chdir", "/", "--clearenv"),
        *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "PYTHONPATH", str(ROOT / "src")),
        *("--setenv", "NUMBA_NUM_THREADS", "1"),
    ]


def _serve_three(
    units: dict[str, Path], homes: dict[str, Path], sandbox: list[str], filter_file: Path
) -> None:
    """What each unit starts, with the folders that it may read and write, until its queue is
    empty."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, path in units.items():
            lines = re.findall(r"^(\w+)=(.*)$", path.read_text("utf-8"), re.M)
            said = dict(lines)
            own = [
                pair for key, line in lines if key == "Environment" for pair in shlex.split(line)
            ]
            given = [word for pair in own for word in ("--setenv", *pair.split("=", 1))]
            given += ["--dir", f"/var/cache/{said['CacheDirectory']}"]
            places = [("--bind", one) for one in shlex.split(said["ReadWritePaths"])]
            places += [("--ro-bind", one) for one in shlex.split(said["ReadOnlyPaths"])]
            bound = [word for flag, place in places for word in (flag, place, place)]
            os.dup2(os.open(filter_file, os.O_RDONLY), 9)
            inside = [*sandbox, *given, *bound, "--seccomp", "9"]
            command = [*inside, *shlex.split(said["ExecStart"])]
            with open(homes[name] / "served.txt", "wb") as out:
                started[name] = subprocess.Popen(
                    [*command, "--until-empty"], stdout=out, stderr=out, pass_fds=(9,)
                )
        for name, process in started.items():
            code = process.wait(_left())
            words = (homes[name] / "served.txt").read_text("utf-8", "replace")[-1500:]
            assert code == 0, f"{name} ended with {code}: {words}"
            results = list(homes[name].rglob("results/*.safetensors"))
            assert len(results) == 1, f"{name} has no result: {words}"
    finally:
        for process in started.values():
            if process.poll() is None:
                process.kill()


def _check_that_the_filter_holds(bubblewrap: str, filter_file: Path) -> None:
    """Root may lower its own priority, and may not under the unit's filter."""
    code = "import os; os.setpriority(os.PRIO_PROCESS, 0, 1)"
    command = [bubblewrap, "--bind", "/", "/", "--seccomp", "9", "/usr/bin/python3", "-c", code]
    os.dup2(os.open(filter_file, os.O_RDONLY), 9)
    done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=(9,))
    assert "Operation not permitted" in done.stderr, done.stderr[-300:]


def _shown(*paths: object) -> list[str]:
    """Folders under /home, /tmp or /run that hold the program itself stay readable."""
    return [part for path in paths for part in ("--ro-bind", str(path), str(path))]


def _write_filter(analyze: str, unit: str, path: Path) -> None:
    """The unit's SystemCallFilter as a program of libseccomp; others fail with EPERM."""
    lines = re.findall(r"^SystemCallFilter=(~?)(.+)$", unit, re.M)
    allowed: set[str] = set(_members(analyze, "@default"))
    for sign, names in lines:
        wanted = {call for name in names.split() for call in _members(analyze, name)}
        allowed = allowed - wanted if sign else allowed | wanted
    script = (
        "import errno, json, seccomp, sys\n"
        "made = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))\n"
        "for name in json.load(sys.stdin):\n"
        "    try: made.add_rule(seccomp.ALLOW, name)\n"
        "    except (RuntimeError, ValueError): print(name, file=sys.stderr)\n"
        f"made.export_bpf(open({str(path)!r}, 'wb'))\n"
    )
    python = "/usr/bin/python3"
    try:
        subprocess.run([python, "-c", "import seccomp"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise Missing("libseccomp for Python (Debian: python3-seccomp)") from None
    subprocess.run(
        [python, "-c", script],
        input=json.dumps(sorted(allowed)),
        text=True,
        check=True,
        stderr=subprocess.DEVNULL,
    )


def _members(analyze: str, name: str) -> list[str]:
    """The system calls of a set such as @file-system, with those of the sets inside it."""
    if not name.startswith("@"):
        return [name]
    said = told(analyze, "syscall-filter", "--no-pager", name)
    found = [line.strip() for line in said.splitlines()[1:]]
    inner = [line for line in found if line and not line.startswith("#")]
    return [call for entry in inner for call in _members(analyze, entry)]


@contextmanager
def built(given: argparse.Namespace, file: Path) -> Iterator[tuple[Path, Path, Any, str]]:
    """(a folder, the files of the image of this Dockerfile, its settings, its base)."""
    buildah = tool("buildah")
    root_only()
    base, volumes = given.base, list(given.volume)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.chmod(folder, 0o755)
        store = (
            "--storage-driver",
            "vfs",
            "--root",
            str(folder / "images"),
            "--runroot",
            str(folder / "run"),
        )
        if base is None:
            base = "localhost/tacenda-base"
            _make_base(folder, buildah, store, base)
        certificates = Path("/etc/ssl/certs/ca-certificates.crt")
        if certificates.exists():  # an organisation's own proxy may need its own authority
            volumes.append(f"{certificates}:{certificates}:ro")
        told(
            *(buildah, *store, "bud", "--isolation", "chroot", "--network", "host"),
            *(part for volume in volumes for part in ("--volume", volume)),
            *("--build-arg", f"BASE={base}", "--ignorefile", ROOT / ".dockerignore"),
            *("-f", file, "-t", "tacenda-image", ROOT),
        )
        facts = json.loads(told(buildah, *store, "inspect", "--type", "image", "tacenda-image"))
        settings = facts["OCIv1"]["config"]
        assert settings["User"] == f"{USER}:{USER}", settings["User"]
        container = told(buildah, *store, "from", "tacenda-image").strip()
        files = Path(told(buildah, *store, "mount", container).strip())
        try:
            yield folder, files, settings, base
        finally:
            told(buildah, *store, "umount", container)


def sandbox(files: Path, settings: Any, *binds: str) -> tuple[list[str], list[str]]:
    """The beginning and the end of a command inside an image's files: root read only, no
    capability, the image's own user and environment; what is bound stands between them."""
    environment = [p for e in settings["Env"] for p in ("--setenv", *e.split("=", 1))]
    begin = [
        *(tool("bwrap"), "--ro-bind", str(files), "/", "--dev", "/dev", "--proc", "/proc"),
        *("--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--tmpfs", "/dev/shm"),
        *(
            "--ro-bind",
            "/etc/hosts",
            "/etc/hosts",
            "--unshare-pid",
            "--new-session",
            "--die-with-parent",
        ),
        *binds,
    ]
    end = [
        *("--clearenv", *environment, "--setenv", "NUMBA_NUM_THREADS", "1"),
        *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
        *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
    ]
    return begin, end


def image(given: argparse.Namespace) -> str:
    """The Dockerfile, built and used."""
    with built(given, DEPLOY / "Dockerfile") as (folder, files, settings, base):
        entry = settings["Entrypoint"]
        fixed = {
            entry[i]: entry[i + 1]
            for i, part in enumerate(entry)
            if part.startswith("--") and part != "--quiet"
        }

        begin, end = sandbox(files, settings)

        def inside(name: str, home: Path) -> list[str]:
            (files / "data/records.csv").touch()
            return [
                *(*begin, "--ro-bind", str(home.parent / "common"), "/etc/tacenda"),
                *("--ro-bind", str(home / "identity"), "/identity"),
                *("--ro-bind", str(home / "records.csv"), "/data/records.csv"),
                *("--bind", str(home / "state"), "/state"),
                *("--bind", str(home / "ledger"), "/ledger"),
                *("--chdir", "/", *end, entry[0]),
            ]

        _run_three(folder, inside, fixed=fixed)
        size = packages_of(files)
    return (
        f"built on {base}, {size:.0f} MB of packages, and three members ran from it as user {USER} "
        "under a read-only root"
    )


def packages_of(files: Path) -> float:
    """Megabytes of the packages in an image."""
    return sum(f.stat().st_size for f in (files / "opt").rglob("*") if f.is_file()) / 1e6


def cluster(given: argparse.Namespace) -> str:
    """The image for Dask, built, and the job's command run on a cluster made of it."""
    import yaml

    parts = yaml.safe_load_all((DEPLOY / "kubernetes" / "dask.yaml").read_text("utf-8"))
    pod = next(part["spec"]["template"]["spec"] for part in parts if part["kind"] == "Job")
    [job] = pod["containers"]
    command, named = [*job["command"], *job["args"]], "dask://tacenda-scheduler:8786"
    assert any(named in word for word in command), f"the job does not speak to {named}"
    port = _free_port()
    with built(given, DEPLOY / "kubernetes" / "Dockerfile") as (folder, files, settings, base):
        runs = folder / "runs"
        runs.mkdir()
        (runs / "run.toml").write_text(COMPARED, "utf-8")
        os.chown(runs, USER, USER)
        begin, end = sandbox(files, settings, "--bind", str(runs), "/runs", "--chdir", "/runs")
        inside = [*begin, *end]
        scheduler = f"tcp://127.0.0.1:{port}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [
            subprocess.Popen([*inside, *words, "--no-dashboard"], **quiet)
            for words in (
                ("dask", "scheduler", "--host", "127.0.0.1", "--port", str(port)),
                *(("dask", "worker", scheduler, "--nthreads", "1", "--no-nanny"),) * 2,
            )
        ]
        try:
            words = [word.replace(named, f"dask://127.0.0.1:{port}") for word in command]
            said = told(*inside, *words)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(60)
        found = sorted(path.name for path in (runs / "compare" / "results").glob("*.safetensors"))
        assert len(found) == 4, (found, said[-2000:])
        size = packages_of(files)
    return (
        f"built on {base}, {size:.0f} MB of packages; a scheduler and two workers ran from it as "
        f"user {USER}, and the job's command compared two methods on them"
    )


def _make_base(folder: Path, buildah: str, store: Sequence[str], name: str) -> None:
    mmdebstrap = tool("mmdebstrap")
    tar = folder / "base.tar"
    # A mirror that stands still is good enough for a base that is thrown away
    told(
        *(mmdebstrap, "--variant=minbase", "--include=python3,python3-venv,ca-certificates"),
        *("--aptopt=Acquire::Check-Valid-Until false", "stable", tar),
    )
    container = told(buildah, *store, "from", "scratch").strip()
    told(buildah, *store, "add", container, tar, "/")
    told(buildah, *store, "commit", "--rm", container, name)
    tar.unlink()


def _run_three(
    folder: Path, inside: Callable[[str, Path], list[str]], *, fixed: dict[str, str]
) -> None:
    """Three members as sandboxed processes; the volumes are root's, as in Kubernetes."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run(
        [sys.executable, "-c", PREPARE, str(folder), str(ROOT / "tests" / "helpers")],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    facts = json.loads(said.splitlines()[-1])
    members = folder / "members"
    common = members / "common"
    common.mkdir(parents=True)
    contract = Path(facts["contract"])
    shutil.copy(facts["schema"], common / "schema.toml")
    for path in contract.parent.glob("contract.toml*"):
        shutil.copy(path, common)
    processes = {}
    for name, fact in facts["members"].items():
        home = members / name
        home.mkdir()
        shutil.copytree(contract.parent / name / "identity", home / "identity")
        shutil.copy(fact["data"], home / "records.csv")
        for part in ("state", "ledger", "cache"):
            (home / part).mkdir()
            # As a volume with fsGroup: root's, writable for the group
            os.chown(home / part, 0, USER)
            os.chmod(home / part, 0o2775)
        for path in [home / "identity", *(home / "identity").iterdir()]:
            os.chown(path, USER, USER)
        paths = {**fixed, "--metrics-port": str(_free_port())}
        command = [
            *inside(name, home),
            *("node", "run", *(part for pair in paths.items() for part in pair)),
            *("--data", "/data/records.csv", "--dataset", "records", "--budget", "9", "--quiet"),
            *("--bind", fact["address"]),
        ]
        with open(home / "output.txt", "wb") as out:
            processes[name] = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        for name, process in processes.items():
            code = process.wait(300)
            words = (members / name / "output.txt").read_text("utf-8", "replace")[-600:]
            assert code == 0, f"{name} ended with {code}: {words}"
            results = list((members / name / "state").rglob("results/*.safetensors"))
            assert len(results) == 1, f"{name} has no result: {words}"
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def tool(name: str) -> str:
    """Where a program is: beside this Python, or on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


def root_only() -> None:
    if os.geteuid() != 0:
        raise Missing("sandboxes with another user need root")


def told(*command: object, **how: Any) -> str:
    """What a command prints; its words if it fails."""
    words = [str(part) for part in command]
    left = None if float("inf") == END else _left()
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=left, **how
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"the time was over at {words[0]} (--minutes gives more)") from None
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
