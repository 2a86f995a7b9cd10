"""A dask cluster of real processes: workers and the scheduler are lost in the middle of tasks, and
each task comes back once.
"""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern.errors import UsageError
from kern.fleet import work
from kern.fleet.remote import Carrier
from kern.fleet.work import Job
from kern.git.repository import open_at
from kern.model import Key
from tests.conftest import PATIENCE_S, Fake, Git, Kern
from tests.kit.cluster import LocalCluster

cluster = pytest.importorskip("kern.fleet.cluster")
pytestmark = pytest.mark.slow
Background = Callable[..., "subprocess.Popen[str]"]
SOURCE = Path(__file__).resolve().parents[2]


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[LocalCluster]:
    own = {"KERN_DIR": str(tmp_path / "workers"), "PYTHONPATH": str(SOURCE)}
    with LocalCluster(tmp_path / "dask", own, workers=2) as made:
        yield made


def share(git: Git, folder: Path) -> None:
    """A remote that caller and workers reach, named in the person's settings."""
    git("init", "--quiet", "--bare", "central.git", cwd=folder)
    own = Path(os.environ["HOME"], ".config/kern/config.toml")
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f"[fleet]\nremote = '{folder}/central.git'\n")


def jobs(repo: Path, git: Git, count: int) -> list[Job]:
    """With the tasks in SPEC.md."""
    names = [f"task {number}" for number in range(1, count + 1)]
    (repo / "SPEC.md").write_text("".join(f"- [ ] {name}\n" for name in names))
    git("commit", "--quiet", "--all", "--message=tasks")
    papers, head = (("SPEC.md", (repo / "SPEC.md").read_text()),), git("rev-parse", "HEAD")
    return [
        Job(key := Key("", name), at, head, work.branch("main", key), at, "run1", papers)
        for at, name in enumerate(names, 1)
    ]


def test_workers_and_the_scheduler_are_lost_and_each_task_comes_back_once(
    repo: Path, git: Git, fake: Fake, dask: LocalCluster
) -> None:
    fake.script(research=[{"sleep": 0.5, "result": "- Files: a.txt:1-1\n\nREADY"}])
    asked = jobs(repo, git, 5)
    found = cluster.Cluster(str(dask.file))
    git("init", "--quiet", "--bare", "central.git", cwd=repo.parent)
    carry = Carrier(open_at(repo), found.executor, str(repo.parent / "central.git"), pause=0.2)
    try:
        with ThreadPoolExecutor(5) as pool:
            futures = [pool.submit(carry, job) for job in asked]
            deadline = time.monotonic() + PATIENCE_S
            while len(fake.calls) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            dask.kill_worker(0)
            dask.begin_worker()
            while len(fake.calls) < 6 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert dask.scheduler
            dask.scheduler.kill()
            dask.scheduler.wait()
            for at in (1, 0):
                dask.kill_worker(at)
            dask.begin_scheduler()
            dask.begin_worker()
            dask.begin_worker()
            came = [future.result(PATIENCE_S) for future in futures]
    finally:
        found.close()
    assert [one.fault for one in came] == [""] * 5
    for job, one in zip(asked, came, strict=True):
        assert one.commit == git("rev-parse", f"refs/heads/{job.branch}"), dask.said()
        assert git("rev-list", "--count", f"{job.base}..{one.commit}") == "1"


def test_a_scheduler_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no scheduler file") as told:
        cluster.Cluster(str(tmp_path / "none.json")).client()
    assert "dask scheduler" in told.value.hint
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UsageError, match=f"no dask scheduler answers at {where}"):
        cluster.Cluster(where, patience=0.5).client()


def test_what_speaks_something_else_is_no_scheduler() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def answer() -> None:
            caller, _ = server.accept()
            with caller:
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        where = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError, match="no dask scheduler answers"):
            cluster.Cluster(where, patience=1).client()
        thread.join()


TLS = "DASK_DISTRIBUTED__COMM__TLS"


def certified(folder: Path) -> dict[str, str]:
    """A certificate that signs itself, as dask is configured with it."""
    folder.mkdir()
    made = ("-keyout", "key.pem", "-out", "cert.pem")
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kern", *made]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    key, cert = f"{folder}/key.pem", f"{folder}/cert.pem"
    who = ("SCHEDULER", "WORKER", "CLIENT")
    both = {f"{TLS}__{one}__{what}": path for one in who for what, path in _pair(cert, key)}
    return {**both, f"{TLS}__CA_FILE": cert, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true"}


def _pair(cert: str, key: str) -> tuple[tuple[str, str], ...]:
    return ("CERT", cert), ("KEY", key)


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificates")
def test_a_cluster_with_tls_is_there_for_who_has_its_certificates(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    share(git, tmp_path)
    mine, others = certified(tmp_path / "mine"), certified(tmp_path / "others")
    own = {"KERN_DIR": str(tmp_path / "workers"), "PYTHONPATH": str(SOURCE), **mine}
    with LocalCluster(tmp_path / "dask", own, workers=1) as dask:
        where = json.loads(dask.file.read_text())["address"]
        assert where.startswith("tls://")

        def tried(env: dict[str, str]) -> tuple[int, str]:
            ran = kern("1", "0", "--scheduler", where, env=env, started=True)
            return ran.code, ran.said

        code, said = tried(others)
        assert code == 2 and "one with TLS is named tls://HOST:PORT" in said
        assert "does not match" in said
        assert fake.stages == []
        code, said = tried(mine)
        assert code == 0 and "1 done" in said, said
