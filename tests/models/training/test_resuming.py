"""A training run that is stopped or killed at any moment goes on to the same bits."""

import dataclasses
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from safetensors import safe_open
from toy_runs import CONFIG, SETTINGS, same, trainer, weights, without_times

from models.training.loop import Trainer
from models.training.state import STATE

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """A run that nothing stopped."""
    whole = trainer(tmp_path_factory.mktemp("whole"))
    whole.run()
    return whole


@pytest.mark.parametrize("stop_after", [1, 20])
def test_a_stopped_run_goes_on_to_the_same_bits(
    tmp_path: Path, whole: Trainer, stop_after: int
) -> None:
    assert whole.total_steps > 20
    steps = iter(range(10**6))
    trainer(tmp_path / "parts").run(stop=lambda: next(steps) >= stop_after)
    resumed = trainer(tmp_path / "parts")
    assert resumed.progress.step == stop_after
    assert without_times(resumed.run().curve) == without_times(whole.progress.curve)
    assert same(weights(resumed.model), weights(whole.model))


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, whole: Trainer) -> None:
    """SIGKILL while the state is being written again and again; then resume."""
    script = f"""
import dataclasses, sys
from pathlib import Path
sys.path[:0] = {[str(ROOT), str(ROOT / "tests")]!r}
import torch
from toy_runs import SETTINGS, trainer
torch.set_num_threads(1)
run = trainer(Path(sys.argv[1]), dataclasses.replace(SETTINGS, save_seconds=1e-6))
print("ready", flush=True)
run.run()
"""
    folder = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    while not (folder / STATE).exists():
        with suppress(subprocess.TimeoutExpired):  # a breath between two looks
            assert process.wait(0.002) == 0
            break
    process.kill()
    process.wait()
    process.stdout.close()
    resumed = trainer(folder)
    assert resumed.progress.step > 0
    assert without_times(resumed.run().curve) == without_times(whole.progress.curve)
    assert same(weights(resumed.model), weights(whole.model))


def test_a_folder_with_another_run_is_refused(tmp_path: Path) -> None:
    steps = iter(range(10))
    trainer(tmp_path).run(stop=lambda: next(steps) >= 2)
    with pytest.raises(ValueError, match=r"learning_rate = 0\.003, not 0\.01"):
        trainer(tmp_path, dataclasses.replace(SETTINGS, learning_rate=0.01))


def test_the_state_says_what_it_is(whole: Trainer) -> None:
    with safe_open(whole.folder / STATE, framework="pt") as file:
        about = file.metadata()
    assert json.loads(about["run"])["model"]["d_model"] == CONFIG.d_model
    assert json.loads(about["progress"])["epoch"] == SETTINGS.epochs
