"""The formats know a whole file from one that a dead trainer left half-written."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dvc_ckpt_recover.formats import Member, inspect

if TYPE_CHECKING:
    from collections.abc import Mapping


def tensors(**shapes: int) -> bytes:
    """Return a safetensors file of float32 vectors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, length in shapes.items():
        header[name] = {"dtype": "F32", "shape": [length], "data_offsets": [end, end + 4 * length]}
        end += 4 * length
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(end)


def saved(write: Any) -> bytes:
    """Return what ``write`` writes to a file."""
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def archive() -> bytes:
    """Return a zip laid out as ``torch.save`` does it: stored, with a pickle and storages."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", pickle.dumps({"w": 1}))
        file.writestr("archive/data/0", bytes(5000))
    return buffer.getvalue()


WHOLE = {
    "metrics.json": b'{"loss": 0.5, "epoch": 3}\n',
    "indented.json": json.dumps({"loss": 0.5, "list": [1, 2]}, indent=2).encode(),
    "log.jsonl": b'{"step": 1}\n{"step": 2}\n',
    "metrics.yaml": b"loss: 0.5\nmatrix: [[1, 2], [3, 4]]\n",
    "loss.tsv": b"step\tloss\n0\t0.5\n1\t0.25\n",
    "model.safetensors": tensors(a=300, b=200),
    "model.pt": archive(),
    "arrays.npz": saved(lambda file: np.savez(file, x=np.arange(500.0), y=np.eye(3))),
    "weights.npy": saved(
        lambda file: np.save(file, np.arange(600, dtype="float32").reshape(20, 30))
    ),
    "state.pkl": pickle.dumps({"epoch": 3, "weights": bytes(4000)}, protocol=4),
}


def proven(members: Mapping[str, Member]) -> bool:
    """Return whether an output counts as whole although no trainer said so."""
    found = inspect(members)
    return not found.torn and not found.unknown


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_cut_off_anywhere_is_not_proven(name: str) -> None:
    """The whole file is, and no shorter one, except where a text's lines or values end."""
    data = WHOLE[name]
    assert proven({"": Member(name, data=data)})
    text = name.endswith((".json", ".jsonl", ".yaml", ".tsv"))
    lengths = range(len(data)) if len(data) < 700 else range(0, len(data), 37)
    for length in lengths:
        cut = data[:length]
        if not (text and (cut.endswith(b"\n") or cut == data.rstrip())):
            assert not proven({"": Member(name, data=cut)}), length


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("metrics.json", b'{"loss": 0.', "parse"),
        ("metrics.json", b"", "parse"),
        ("loss.tsv", b"step\tloss\n0\t0.5\n1", "cut off"),
        ("model.safetensors", tensors(a=300)[:-1], "bytes"),
        ("model.safetensors", tensors(a=300) + b"x", "bytes"),
        ("model.safetensors", b"", "cut off"),
        ("model.pt", archive()[:-30], "directory"),
        ("model.pt", b"", "empty"),
        ("model.pt", archive()[:4] + archive()[4:].replace(b"PK\x03\x04", bytes(4)), "overwritten"),
        ("weights.npy", WHOLE["weights.npy"][:-4], "bytes"),
        ("state.pkl", b"", "empty"),
    ],
)
def test_a_torn_file_is_named_with_its_reason(name: str, data: bytes, reason: str) -> None:
    """A trainer that said that it is whole is not believed either."""
    found = inspect({"": Member(name, data=data)})
    assert reason in found.torn[""]


def test_unknown_files_are_neither_torn_nor_proven() -> None:
    """Nobody can tell of these, so a trainer's word counts, and without it they are left out."""
    for name in ("model.bin", "old.pt", "log.txt", "joblib.pkl"):
        found = inspect({"": Member(name, data=b"\x80\x04something else")})
        assert (found.torn, found.unknown) == ({}, [""])


def folder(files: Mapping[str, bytes]) -> dict[str, Member]:
    """Return the files of a folder."""
    return {path: Member(path.rpartition("/")[2], data=data) for path, data in files.items()}


def test_a_sharded_model_needs_every_shard() -> None:
    """The index names them."""
    weights = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    files = {
        "model.safetensors.index.json": json.dumps({"weight_map": weights}).encode(),
        weights["a"]: tensors(a=10),
        weights["b"]: tensors(b=10),
    }
    assert proven(folder(files))
    del files[weights["b"]]
    found = inspect(folder(files))
    assert "1 of 2 shards are missing" in found.torn["model.safetensors.index.json"]


def test_a_hugging_face_folder_counts_by_its_newest_step() -> None:
    """It is whole once the trainer's state is there, which is written last."""
    files = {
        "checkpoint-5/model.safetensors": tensors(a=10),
        "checkpoint-5/vocab.txt": b"words",
        "checkpoint-5/trainer_state.json": b'{"global_step": 5}',
        "checkpoint-10/model.safetensors": tensors(a=10),
        "checkpoint-10/merges.txt": b"words",
        "checkpoint-10/trainer_state.json": b'{"global_step": 10}',
    }
    assert proven(folder(files))
    state = files.pop("checkpoint-10/trainer_state.json")
    assert "not finished" in inspect(folder(files)).torn["checkpoint-10"]
    files["checkpoint-10/trainer_state.json"] = state[:9]
    assert "checkpoint-10/trainer_state.json" in inspect(folder(files)).torn
    files["checkpoint-10/trainer_state.json"] = state
    del files["checkpoint-10/model.safetensors"]
    assert "no weights" in inspect(folder(files)).torn["checkpoint-10"]


def test_an_orbax_step_counts_once_it_is_committed() -> None:
    """By the time of the commit, or by the success file of stores without renames."""
    files = {
        "10/_CHECKPOINT_METADATA": b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}',
        "10/default/_METADATA": b"{}",
        "10/default/d/abc": b"bytes",
    }
    assert proven(folder(files))
    half = {"20.orbax-checkpoint-tmp-3/default/d/x": b""}
    assert inspect(folder({**files, **half})).torn == {}
    assert "finished" in next(iter(inspect(folder(half)).torn.values()))
    files["10/_CHECKPOINT_METADATA"] = (
        b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": null}'
    )
    assert "not finished" in inspect(folder(files)).torn["10/_CHECKPOINT_METADATA"]
    assert inspect(folder({**files, "10/commit_success.txt": b"ok"})).torn == {}


@pytest.fixture
def storage_info(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a class that pickles as PyTorch's, which is not installed here."""
    name = "torch.distributed.checkpoint.filesystem"
    for part in ("torch", "torch.distributed", "torch.distributed.checkpoint", name):
        monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
    module = sys.modules[name]

    class _StorageInfo:
        def __init__(self, relative_path: str, offset: int, length: int) -> None:
            self.relative_path, self.offset, self.length = relative_path, offset, length

    _StorageInfo.__module__, _StorageInfo.__qualname__ = name, "_StorageInfo"
    module._StorageInfo = _StorageInfo  # type: ignore[attr-defined]  # noqa: SLF001
    return _StorageInfo


def test_a_distributed_checkpoint_needs_metadata_and_all_bytes(storage_info: Any) -> None:
    """Each file must be as long as the metadata says, which is read without loading a class."""
    info = {
        "weight": storage_info("__0_0.distcp", 0, 600),
        "bias": storage_info("__0_0.distcp", 600, 400),
        "other": storage_info("__1_0.distcp", 0, 50),
    }
    files = {
        "step/.metadata": pickle.dumps({"storage_data": info}),
        "step/__0_0.distcp": bytes(1000),
        "step/__1_0.distcp": bytes(50),
    }
    del sys.modules["torch.distributed.checkpoint.filesystem"]
    assert proven(folder(files))
    files["step/__0_0.distcp"] = bytes(999)
    assert "1000 are needed" in inspect(folder(files)).torn["step/__0_0.distcp"]
    del files["step/__0_0.distcp"]
    assert "missing" in inspect(folder(files)).torn["step/__0_0.distcp"]
    del files["step/.metadata"]
    assert "not finished" in inspect(folder(files)).torn["step"]


def test_a_pickle_is_never_executed(tmp_path: Any) -> None:
    """What a dead trainer left may be anybody's bytes."""
    target = tmp_path / "executed"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (open, (str(target), "w"))

    data = pickle.dumps(Evil())
    inspect({"": Member("state.pkl", data=data)})
    inspect(folder({"step/.metadata": data, "step/__0_0.distcp": b""}))
    assert not target.exists()
