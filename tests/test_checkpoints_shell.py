"""Trainers in other languages: a file that goes away, or a command; on DVC 2 as well."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, Project
from support.tiny import steps, told

if TYPE_CHECKING:
    from typing import Callable

EXAMPLE = Path(__file__).parent.parent / "fixtures" / "shell" / "train.sh"
OUTS = (f"model: {{{'persist' if DVC_VERSION >= (3,) else 'checkpoint'}: true}}",)
COMMAND = "python -m dvc_ckpt_recover checkpoint"


def shell(text: str) -> str:
    """Return a shell trainer that notes exit codes."""
    told = 'tell() { echo "{\\"what\\": \\"$1\\", \\"code\\": $2}" >> "$TOLD"; }\n'
    return told + text


def test_a_file_is_enough(tiny: Callable[..., Project]) -> None:
    """The example of the documentation; it is killed after its third checkpoint."""
    script = EXAMPLE.read_text(encoding="utf-8") + "kill -9 $$\n"
    project = tiny(script, script="train.sh", cmd="sh train.sh", outs=OUTS)
    project.dvc("exp", "run", "--temp", "-n", "shell")
    assert steps(project, project.exps()["shell"]) == [1, 2, 3]


MISSING = """
file=$DVC_CKPT_RECOVER_FILE
rm -f model
: > "$file"
while [ -e "$file" ]; do sleep 0.05; done
tell "file: $(cat "$file.failed")" 1
code=0; COMMAND || code=$?; tell command $code
echo '{"step": 1}' > metrics.json
echo 1 > model
code=0; COMMAND || code=$?; tell command $code
: > "$file"
while [ -e "$file" ]; do sleep 0.05; done
[ ! -e "$file.failed" ] && tell file 0
code=0; COMMAND --no-wait || code=$?; tell "no wait" $code
code=0; env -u DVC_CKPT_RECOVER_ADDRESS COMMAND || code=$?; tell elsewhere $code
""".replace("COMMAND", COMMAND)


@pytest.mark.skipif(DVC_VERSION < (3,), reason="DVC 2 takes a checkpoint of a missing output too")
def test_file_and_command_say_whether_it_is_safe(tiny: Callable[..., Project]) -> None:
    """Exit code 0 means safe; otherwise there is a reason, and dvc says it as well."""
    project = tiny(shell(MISSING), script="train.sh", cmd="sh train.sh", outs=OUTS)
    told_to = {"TOLD": str(project.outside / "told.jsonl")}
    done = project.dvc("exp", "run", "--temp", "-n", "shell", env=told_to, check=True)
    assert told(project) == [
        {"what": "file: the output model is missing", "code": 1},
        {"what": "command", "code": 1},
        {"what": "command", "code": 0},
        {"what": "file", "code": 0},
        {"what": "no wait", "code": 0},
        {"what": "elsewhere", "code": 1},
    ]
    assert "2 checkpoint(s) skipped: stage train: the output model is missing" in done.stdout
    assert "this is not a stage of `dvc exp run`" in done.stdout


@pytest.mark.skipif(DVC_VERSION >= (3,), reason="DVC 3 has no checkpoints of its own")
def test_the_command_uses_dvc_2(tiny: Callable[..., Project]) -> None:
    """There DVC's own checkpoint is made, and waited for."""
    script = f"echo 1 > model\necho '{{\"step\": 1}}' > metrics.json\n{COMMAND}\nkill -9 $$\n"
    project = tiny(script, script="train.sh", cmd="sh train.sh", outs=OUTS)
    project.dvc("exp", "run", "--temp", "-n", "shell")
    assert steps(project, project.exps()["shell"]) == [1]
