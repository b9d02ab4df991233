"""`dvc exp resume`: the trainer goes on where it died, and ends where it would have ended."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest
from support import DVC_VERSION, Project, wait_for
from support.mini import dies, run
from support.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = Path(__file__).parent / "support" / "many.py"
DIED = 255
NATIVE = DVC_VERSION < (3,)


@pytest.fixture(scope="session")
def whole(
    build_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Return what the trainer logs at the end of each epoch of a run that nobody kills."""
    folder = tmp_path_factory.mktemp("whole")
    subprocess.run(["cp", "-a", str(build_once()), str(folder / "repo")], check=True)
    project = Project(folder / "repo", folder / "outside")
    project.dvc("exp", "run", "--temp", "-n", "whole", check=True)
    return project.logged()


@pytest.fixture(scope="session")
def killed_once(build_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a project whose experiment ``one`` was killed in its third epoch."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run(["cp", "-a", str(build_once()), str(folder / "repo")], check=True)
    project = Project(folder / "repo", folder / "outside")
    assert project.killed("one", at=3).returncode == DIED
    assert project.epochs("checkpoint") == [1, 2]
    return folder


@pytest.fixture
def killed(killed_once: Path, tmp_path: Path) -> Iterator[Project]:
    """Return a copy of that project, with the trainer's log."""
    shutil.rmtree(tmp_path)
    subprocess.run(["cp", "-a", str(killed_once), str(tmp_path)], check=True)
    project = Project(tmp_path / "repo", tmp_path / "outside")
    yield project
    project.end_all()


def hashes(entries: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return epoch and hash of the model for each line of the trainer's log."""
    return [(entry["epoch"], entry["md5"]) for entry in entries]


def model_in_cache(project: Project, md5: str) -> Path:
    """Return the path of a model in the DVC cache, in the layout of this version."""
    cache = project.path / ".dvc" / "cache"
    return (cache if NATIVE else cache / "files" / "md5") / md5[:2] / md5[2:]


def tree_of(project: Project) -> tuple[str, ...]:
    """Return what must not change in the user's workspace: HEAD, index, status, files."""
    return (
        project.git("rev-parse", "HEAD"),
        project.git("diff", "--cached"),
        project.git("diff"),
        project.git("status", "--porcelain"),
        project.git("stash", "list"),
    )


def test_it_goes_on_and_ends_as_if_nobody_had_killed_it(
    killed: Project, whole: list[dict[str, Any]]
) -> None:
    """No epoch is lost or trained twice, and what the user has in hand is not mixed in."""
    params = killed.path / "params.yaml"
    params.write_text(params.read_text().replace("lr: 0.02", "lr: 0.5"))
    (killed.path / "note.txt").write_text("untracked")
    (killed.path / "staged.txt").write_text("staged")
    killed.git("add", "staged.txt")
    partial, before = killed.exps()["one"], tree_of(killed)

    done = killed.dvc("exp", "resume", "one", check=True)

    assert hashes(killed.logged()) == hashes(whole)
    tip = killed.exps()["one"]
    assert list(killed.exps()) == ["one"]
    assert killed.git("merge-base", partial, tip).strip() == partial
    assert whole[-1]["md5"] in killed.read(tip, "dvc.lock")
    assert "unfinished" not in killed.read(tip, "dvc.lock")
    assert json.loads(killed.read(tip, "eval.json"))["test_epoch"] == 6
    assert "lr: 0.02" in killed.read(tip, "params.yaml")
    assert "Going on with experiment 'one' from checkpoint 2" in done.stdout
    assert "Ran experiment(s): one" in done.stdout
    assert done.stdout.count("Running stage 'prepare'") == 0
    assert tree_of(killed) == before
    assert killed.temp_dirs() == []
    assert "ckpt-recover" not in killed.git("for-each-ref")
    row = next(row for row in killed.rows() if row["name"] == "one")
    assert row["state"] in (None, "Success")
    again = killed.dvc("exp", "resume", "one")
    assert again.returncode == 6
    assert "is finished" in again.stdout


def test_killed_three_times_and_resumed_three_times(
    project: Project, whole: list[dict[str, Any]]
) -> None:
    """Each death leaves a partial experiment with more checkpoints, of the same name."""
    seed = random.randrange(10**6)  # noqa: S311
    print("seed", seed)
    deaths = sorted(random.Random(seed).sample(range(2, 7), 3))  # noqa: S311
    assert project.killed("again", at=deaths[0]).returncode == DIED
    for death in deaths[1:]:
        died = project.dvc("exp", "resume", env=project.dying(at=death))
        assert died.returncode == DIED
        assert f"Kept {death - 1} checkpoint" in died.stdout
    tips = project.commits(project.exps()["again"])
    project.dvc("exp", "resume", check=True)
    assert hashes(project.logged()) == hashes(whole)
    assert list(project.exps()) == ["again"]
    assert project.commits(project.exps()["again"])[: len(tips)] == tips


def many(project: Project, *commands: list[str]) -> list[tuple[int, str, str]]:
    """Run `dvc` commands one after the other; return exit code, stdout and stderr of each."""
    done = project.python(str(MANY), json.dumps(commands))
    return [tuple(result) for result in json.loads(done.stdout.splitlines()[-1])]


DAMAGES = {
    "truncated": "path.write_bytes(whole[: len(whole) // 2])",
    "emptied": "path.write_bytes(b'')",
    "flipped": "path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])",
    "removed": "path.unlink()",
}
"""What happens to the newest checkpoint's object, which stays read-only as DVC made it."""

CHOOSE = [["exp", "resume", "--queue", "--json"], ["queue", "remove", "--queued"]]


def test_a_damaged_object_is_never_used(killed: Project) -> None:
    """The checkpoint before is, the damaged one is named with the reason, the branch goes on."""
    newest = model_in_cache(killed, killed.logged("checkpoint")[-1]["md5"])
    whole, refs, partial = newest.read_bytes(), killed.refs(), killed.exps()["one"]
    copy = killed.outside / "whole.pkl"
    copy.write_bytes(whole)
    commands = list(CHOOSE)
    for damage in DAMAGES.values():
        paths = f"path, copy = Path({str(newest)!r}), Path({str(copy)!r})"
        head = f"from pathlib import Path; {paths}; whole = copy.read_bytes()"
        there = "path.exists() and path.chmod(0o644)"
        again = "path.exists() and path.chmod(0o444)"
        commands.append(["python", f"{head}; {there}; {damage}; {again}"])
        commands += CHOOSE
        commands.append(["python", f"{head}; {there}; path.write_bytes(whole)"])
    results = many(killed, *commands)
    chosen = [json.loads(out) for _, out, _ in results if out.startswith("{")]
    assert [found["checkpoint"]["number"] for found in chosen] == [2, 1, 1, 1, 1]
    for found, damage in zip(chosen[1:], DAMAGES):
        (rejected,) = found["rejected"]
        assert rejected["number"] == 2, damage
        assert "model.pkl of stage train" in rejected["reason"], damage
    assert killed.refs() == refs

    newest.chmod(0o644)
    newest.write_bytes(b"")
    newest.chmod(0o444)
    done = killed.dvc("exp", "resume", "one", check=True)
    assert "Checkpoint 2" in done.stdout
    assert "is not used: model.pkl of stage train" in done.stdout
    assert killed.epochs() == [1, 2, 2, 3, 4, 5, 6]
    assert killed.git("merge-base", partial, killed.exps()["one"]).strip() == partial
    assert newest.read_bytes() == whole


def test_no_whole_checkpoint_is_an_error_that_changes_nothing(killed: Project) -> None:
    """Both models are gone: exit 3, each is named, and no ref moves."""
    for entry in killed.logged("checkpoint"):
        model_in_cache(killed, entry["md5"]).unlink()
    refs = killed.refs()
    failed = killed.dvc("exp", "resume", "one")
    assert failed.returncode == 3
    assert "no checkpoint of 'one' is whole" in failed.stdout
    assert failed.stdout.count("model.pkl of stage train") == 2
    assert killed.refs() == refs
    assert killed.temp_dirs() == []


REFUSALS = {
    ("none",): (5, "no experiment called 'none'"),
    ("one", "--from", "HEAD"): (6, "is no checkpoint of"),
    ("one", "--from", "abcdef123"): (5, "no revision 'abcdef123'"),
    ("one", "-S", "train.lr=1,2"): (6, "not with a sweep"),
    ("one", "-S", "no.yaml:lr=1"): (5, "no params file no.yaml"),
}


def test_refusals_are_clear(killed: Project) -> None:
    """Whatever cannot be gone on with is said in one line, with an exit code of its own."""
    refs = killed.refs()
    commands = [["exp", "resume", *args] for args in REFUSALS]
    queued = [["exp", "resume", "one", "--queue"], ["exp", "resume", "one"], CHOOSE[1]]
    results = many(killed, *commands, *queued, ["exp", "--help"])
    for (code, said), (found, _, err) in zip(REFUSALS.values(), results):
        assert (found, said in err) == (code, True), err
    assert "one  (2 checkpoints; stage train: signal 9 (SIGKILL))" in results[0][2]
    assert [code for code, _, _ in results[-4:-1]] == [0, 6, 0]
    assert "waiting in the queue" in results[-3][2]
    assert "resume" in results[-1][1]
    assert killed.refs() == refs


def test_only_what_is_partial_and_dead_is_gone_on_with(killed: Project) -> None:
    """Not what runs, not what left nothing; and of several none is chosen for the user."""
    killed.killed("failed", "-S", "seed=9", stage="prepare")
    killed.killed("two", "-S", "train.lr=0.03", at=2)
    killed.mark.unlink()
    running = killed.start("exp", "resume", "one", env=killed.dying(at=3, cause="hang"))
    killed.marked_pid()
    failed, busy, several = many(
        killed, ["exp", "resume", "failed"], ["exp", "resume", "one"], ["exp", "resume"]
    )
    running.signal_group(signal.SIGKILL)
    running.wait()
    assert failed[0] == busy[0] == several[0] == 6
    assert "left no checkpoint" in failed[2]
    assert "'one' is running" in busy[2]
    assert "one  (2 checkpoints" in several[2]
    assert "two  (1 checkpoint;" in several[2]


def test_params_and_an_older_checkpoint_of_choice(killed: Project) -> None:
    """`-S` changes the experiment's params file only; `--from` an older checkpoint goes forward."""
    partial = killed.exps()["one"]
    first = killed.commits(partial)[0]
    workspace = (killed.path / "params.yaml").read_text()
    done = killed.dvc(
        *("exp", "resume", "one", "--from", first[:10]),
        *("-S", "train.lr=0.01", "-S", "params.yaml:train.epochs=4"),
        check=True,
    )
    assert f"from checkpoint 1 ({first[:7]})" in done.stdout
    assert killed.epochs() == [1, 2, 2, 3, 4]
    tip = killed.exps()["one"]
    assert killed.git("merge-base", partial, tip).strip() == partial
    assert "lr: 0.01" in killed.read(tip, "params.yaml")
    assert json.loads(killed.read(tip, "metrics.json"))["epoch"] == 4
    assert (killed.path / "params.yaml").read_text() == workspace


def test_apply_edit_and_run_goes_on_from_the_checkpoint(mini: Project) -> None:
    """DVC's own way, with and without the package: the stage is run again, on what it had."""
    run(mini, "one", dies(3, "torn", calls=True))
    mini.dvc("exp", "apply", "one", check=True)
    mini.git("add", "dvc.lock")  # HEAD has none yet, and DVC stashes what Git knows
    trainer = mini.path / "train.py"
    trainer.write_text(trainer.read_text() + "\n# edited\n")
    plain = {"DVC_CKPT_RECOVER": "0"}
    for name, env in {"ours": {}, **({} if NATIVE else {"plain": plain})}.items():
        mini.dvc("exp", "run", "--temp", "-n", name, env={**env, "MINI_CALL": "1"}, check=True)
        assert mini.epochs()[2:] == [3, 4], name
        mini.log.unlink()
        mini.log.write_text('{"event": "epoch", "epoch": 1}\n{"event": "epoch", "epoch": 2}\n')


def test_a_later_stage_goes_on_without_the_finished_ones(killed: Project) -> None:
    """The evaluation died: the model is there, with metrics that only Git has."""
    epochs = killed.epochs()
    killed.killed("late", "-S", "train.epochs=2", stage="evaluate")
    stored = md5_of(killed, "late", "metrics.json")[2:]
    for path in (killed.path / ".dvc" / "cache").rglob(stored):
        path.unlink()
    done = killed.dvc("exp", "resume", "late", check=True)
    if not NATIVE:  # DVC 2 runs a stage with checkpoints always, which has nothing left to train
        assert "Running stage 'train'" not in done.stdout
    assert killed.epochs() == [*epochs, 1, 2]
    assert json.loads(killed.read(killed.exps()["late"], "eval.json"))["test_epoch"] == 2


def md5_of(project: Project, name: str, path: str) -> str:
    """Return the hash of a file in an experiment's tip, as DVC names it."""
    data = project.read(project.exps()[name], path).encode() + b"\n"
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_two_at_once_in_the_queue(mini: Project) -> None:
    """Two workers finish two partial experiments."""
    names = ("one", "two")
    for name in names:
        run(mini, name, dies(3, "torn", calls=True))
    with Queue(mini) as queue:
        results = many(mini, *(["exp", "resume", name, "--queue"] for name in names))
        assert [code for code, _, _ in results] == [0, 0]
        assert "Queued experiment 'two'" in results[1][1]
        queue.start("-j", "2", env={"MINI_CALL": "1"})
        wait_for(lambda: all(finished(mini, name) for name in names), 120)
    assert sorted(mini.epochs()) == sorted([1, 2, 3, 4] * 2)
    assert sorted(mini.exps()) == ["one", "two"]


def finished(project: Project, name: str) -> bool:
    """Return whether an experiment's tip closes nothing and has all epochs."""
    tip = project.exps()[name]
    message = project.git("log", "-1", "--format=%B", tip)
    return "partial" not in message and '"epoch": 4' in project.read(tip, "metrics.json")


def test_in_a_clone_with_an_empty_cache(mini: Project, tmp_path: Path) -> None:
    """What `exp push` carried suffices: refs from Git, objects from the DVC remote."""
    bare, remote = tmp_path / "git", tmp_path / "remote"
    config = mini.path / ".dvc" / "config"
    section = f"    remote = r\n['remote \"r\"']\n    url = {remote}\n"
    config.write_text(config.read_text() + section)
    mini.git("commit", "-qam", "Use a remote")
    run(mini, "one", dies(3, "torn", calls=True))
    mini.git("clone", "-q", "--bare", ".", str(bare))
    mini.git("remote", "add", "origin", str(bare))
    mini.dvc("exp", "push", "origin", "one", check=True)
    mini.git("clone", "-q", str(bare), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone", tmp_path / "elsewhere")
    clone.git("config", "user.name", "Other")
    clone.git("config", "user.email", "other@example.com")
    clone.dvc("exp", "pull", "origin", "one", check=True)
    shutil.rmtree(clone.path / ".dvc" / "cache")
    clone.dvc("exp", "resume", env={"MINI_CALL": "1"}, check=True)
    assert clone.logged("start")[0]["number"] == "2"
    assert clone.epochs() == [3, 4]
    assert list(clone.exps()) == ["one"]
    assert finished(clone, "one")
