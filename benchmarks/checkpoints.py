"""What a checkpoint costs the trainer: a plain copy, DVC 2.58.2's own checkpoint, ours.

    python benchmarks/checkpoints.py [--sizes 1kB,100MB,1GB,10000files] [--rounds 5] [--many 1000]

Run it with a Python that has DVC 3 and this package. All three are measured in one run, side by
side, by the same trainer on the same files, each time with new content. DVC 2.58.2 gets an
environment of its own, made with uv (or named with ``--dvc2 PYTHON``; ``--dvc2 none`` leaves it
out). Figures and what they mean are in README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TRAINER = '''
import json, os, shutil, sys, time
from pathlib import Path

kind, size, rounds, system, results = sys.argv[1:]
rounds = int(rounds)
if system == "ours":
    from dvc_ckpt_recover import make_checkpoint
else:
    from dvc.api import make_checkpoint
pid = int(os.environ.get("DVC_CKPT_RECOVER_PID") or os.getppid())
staging = Path(os.environ["DVC_ROOT"], ".dvc/tmp/ckpt-recover/staging")
model, copy = Path("model"), Path("copy.tmp")
times = {"copy": [], "call": [], "ready": []}


def peak():
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def fill():
    if kind == "files":
        for number in range(int(size)):
            path = model / str(number % 100) / str(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(1000))
        return
    left = int(size)
    with model.open("wb") as file:
        while left > 0:
            left -= file.write(os.urandom(min(left, 1 << 20)))


def change(step):
    """Give all files new content, the cheapest way that makes it new."""
    for path in [model] if kind == "bytes" else [p for p in model.rglob("*") if p.is_file()]:
        with path.open("r+b") as file:
            file.write(step.to_bytes(8, "big"))


def settle():
    """Let the system write out what was changed, so that nobody pays for what came before."""
    os.sync()


def timed(name, action):
    start = time.perf_counter()
    action()
    times[name].append(time.perf_counter() - start)


def stored():
    while system == "ours" and any(staging.glob("*/*/ready.json")):
        time.sleep(0.0005)


fill()
Path("metrics.json").write_text("{}")
before = peak()
for step in range(rounds):
    change(step)
    if rounds <= 100:
        settle()
        copying = shutil.copyfile if kind == "bytes" else shutil.copytree
        timed("copy", lambda: copying(model, copy))
        shutil.rmtree(copy, ignore_errors=True)
        copy.unlink(missing_ok=True)
        settle()
    start = time.perf_counter()
    make_checkpoint()
    times["call"].append(time.perf_counter() - start)
    stored()
    times["ready"].append(time.perf_counter() - start)
Path(results).write_text(json.dumps({**times, "memory": (peak() - before) / 1024}))
sys.exit(3)  # nothing is to be stored by DVC itself
'''
SIZES = {
    "1kB": ("bytes", 1000),
    "100MB": ("bytes", 100 * 10**6),
    "1GB": ("bytes", 10**9),
    "10000files": ("files", 10_000),
}
OURS, NATIVE = "ours", "native"


def environment(python: Path) -> dict[str, str]:
    """Return the environment of a process whose DVC is the one beside ``python``."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DVC_")}
    env["PATH"] = os.pathsep.join([str(python.parent), env["PATH"]])
    env["DVC_NO_ANALYTICS"] = "1"
    if python != Path(sys.executable):
        env["DVC_CKPT_RECOVER"] = "0"
    return env


def run(command: list[str], folder: Path, python: Path, *, check: bool = True) -> None:
    """Run a program in the project; what it says is shown when it fails."""
    done = subprocess.run(
        command, cwd=folder, env=environment(python), capture_output=True, text=True, check=False
    )
    if check and done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def build(repo: Path, python: Path, command: str, marker: str) -> None:
    """Make a project whose only stage is the trainer."""
    repo.mkdir()
    for args in (["init", "-q"], ["config", "user.name", "B"], ["config", "user.email", "b@b.b"]):
        run(["git", *args], repo, python)
    run([str(python), "-m", "dvc", "init", "-q"], repo, python)
    (repo / "train.py").write_text(TRAINER, encoding="utf-8")
    (repo / "dvc.yaml").write_text(
        f"stages:\n  train:\n    cmd: {command}\n    outs:\n      - model: {{{marker}: true}}\n"
        "    metrics:\n      - metrics.json: {cache: false}\n",
        encoding="utf-8",
    )
    run(["git", "add", "-A"], repo, python)
    run(["git", "commit", "-q", "-m", "Benchmark"], repo, python)


def measure(folder: Path, python: Path, system: str, size: str, rounds: int) -> dict[str, object]:
    """Return the times of all rounds, in seconds, and how much memory dvc took more, in MiB."""
    kind, amount = SIZES[size]
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"{system}-{size}-") as name:
        results = Path(name) / "results.json"
        command = f"python train.py {kind} {amount} {rounds} {system} {results}"
        build(Path(name) / "repo", python, command, "persist" if system == OURS else "checkpoint")
        dvc = [str(python), "-m", "dvc", "exp", "run", "--temp"]
        run(dvc, Path(name) / "repo", python, check=False)
        if not results.exists():
            sys.exit(f"the trainer of {system} {size} left no results")
        return json.loads(results.read_text(encoding="utf-8"))


def native_python(given: str | None, folder: Path) -> Path | None:
    """Return a Python that has DVC 2.58.2 and not this package, or None when it is left out."""
    if given == "none":
        return None
    if given:
        return Path(given)
    venv = folder / "dvc2"
    python = venv / "bin" / "python"
    subprocess.run(["uv", "venv", "-q", "--python", "3.11", venv], check=True)
    install = ["uv", "pip", "install", "-q", "-p", python, "--exclude-newer", "2023-06-10"]
    subprocess.run([*install, "dvc==2.58.2"], check=True)
    return python


def middle(values: object) -> float:
    """Return the median."""
    return statistics.median(values)  # type: ignore[call-overload]


def compare(folder: Path, native: Path | None, sizes: list[str], rounds: int) -> None:
    """Print one line a size."""
    head = (
        "size",
        "plain copy",
        "DVC 2.58.2",
        "ours",
        "ours/copy",
        "ours/DVC 2",
        "ready",
        "memory",
    )
    print("".join(f"{word:>12}" for word in head), flush=True)
    for size in sizes:
        ours = measure(folder, Path(sys.executable), OURS, size, rounds)
        copy, call = middle(ours["copy"]), middle(ours["call"])
        native_call = None
        if native:
            native_call = middle(measure(folder, native, NATIVE, size, rounds)["call"])
        line = (
            size,
            f"{copy:.4f} s",
            f"{native_call:.3f} s" if native_call else "-",
            f"{call:.4f} s",
            f"{call / copy:.2f}",
            f"{call / native_call:.4f}" if native_call else "-",
            f"{middle(ours['ready']):.3f} s",
            f"+{ours['memory']:.0f} MiB",
        )
        print("".join(f"{word:>12}" for word in line), flush=True)


def lengthen(folder: Path, count: int) -> None:
    """Print what the last of many checkpoints costs against the tenth.

    Of fifty calls around each the median, and the fastest, which a busy machine spoils least.
    """
    found = measure(folder, Path(sys.executable), OURS, "1kB", count)
    for name, text in (("call", "the trainer waits"), ("ready", "until it is ready")):
        times = found[name]
        early, late = times[4:54], times[-50:]  # type: ignore[index]
        for how, pick in (("median", middle), ("fastest", min)):
            first, last = 1000 * pick(early), 1000 * pick(late)
            print(
                f"{text}, {how}: 10th {first:.1f} ms, {count}th {last:.1f} ms, "
                f"ratio {last / first:.2f}"
            )
    print(f"memory of dvc after {count}: +{found['memory']:.0f} MiB")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--many", type=int, default=1000, help="0: leave that part out")
    parser.add_argument("--dvc2", help="a Python that has DVC 2.58.2, or `none`")
    parser.add_argument("--folder", help="where to work; its file system is what is measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="checkpoints-") as name:
        folder = Path(name)
        if options.sizes:
            native = native_python(options.dvc2, folder)
            compare(folder, native, options.sizes.split(","), options.rounds)
        if options.many:
            lengthen(folder, options.many)


if __name__ == "__main__":
    main()
