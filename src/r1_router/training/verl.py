"""Step-GRPO on many GPUs: verl's files made of step rows, and verl started on them.

One YAML holds it all (`configs/verl_stepgrpo.yaml`): verl's keys over verl's defaults, and a section `steps` of ours
that names the step rows.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from r1_router.errors import ConfigError, MissingDependency
from r1_router.training.grpo.config import STEP_TYPES
from r1_router.training.grpo.places import places_by_id
from r1_router.training.grpo.prompts import read_prompts

VERL = "0.9.1"
INSTALL = f'pip install "verl[fsdp,vllm]=={VERL}"'
MAIN = "verl.trainer.main_ppo"
LIVE_LOOPS, LIVE_LOOP = "verl_live.yaml", "live_steps"
"""The file beside the config that tells verl of our agent loop, and the loop's name in it."""


def launch(
    config: Path, overrides: Sequence[str] = (), *, show: bool = False, say: Callable[[str], None] = print
) -> int:
    """Write verl's files and train until verl ends; gives its exit code. A run that was cut short goes on.

    `overrides` are Hydra's, `key=value`. With `show` the command is told and nothing is done. Raises MissingDependency
    without verl, ConfigError and DataError for a config or step rows that cannot be used.
    """
    if not config.is_file():
        raise ConfigError(f"--config: no file {config}; configs/verl_stepgrpo.yaml is the one to start from.")
    overrides = with_live_loop(config, overrides)
    command = verl_command(config, overrides)
    if show:
        say(shlex.join(command))
        return 0
    require_verl()
    for line in write_files(compose(config, overrides)):
        say(line)
    return subprocess.run(command).returncode


def with_live_loop(config: Path, overrides: Sequence[str]) -> list[str]:
    """The overrides, after those that name the live agent loop where `steps.live` says so."""
    import yaml

    told = [override.removeprefix("steps.live=") for override in overrides if override.startswith("steps.live=")]
    steps = yaml.safe_load(config.read_text(encoding="utf-8")).get("steps", {})
    if not (yaml.safe_load(told[-1]) if told else steps.get("live")):
        return list(overrides)
    loops = config.resolve().parent / LIVE_LOOPS
    if not loops.is_file():
        raise ConfigError(f"steps.live: no file {loops}; copy configs/{LIVE_LOOPS} there.")
    agent = "actor_rollout_ref.rollout.agent"
    return [f"{agent}.default_agent_loop={LIVE_LOOP}", f"{agent}.agent_loop_config_path={loops}", *overrides]


def verl_command(config: Path, overrides: Sequence[str]) -> list[str]:
    """The command that starts verl on a config; the files that the config names must be there."""
    folder, name = config.resolve().parent, config.stem
    return [sys.executable, "-m", MAIN, "--config-path", str(folder), "--config-name", name, *overrides]


def require_verl() -> None:
    """Raises MissingDependency where verl is missing or not the one that the config is written for."""
    try:
        found = version("verl")
    except PackageNotFoundError as error:
        raise MissingDependency(f"--engine verl needs verl, best in an environment of its own: {INSTALL}") from error
    if found != VERL:  # EasyR1's package has the same name
        raise MissingDependency(f"--engine verl is written for verl {VERL}, found {found}: {INSTALL}")


def compose(config: Path, overrides: Sequence[str] = ()) -> Any:
    """The whole config as verl will see it; raises ConfigError for a key or value that Hydra refuses."""
    from hydra import compose as compose_hydra
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    try:
        with initialize_config_dir(str(config.resolve().parent), version_base=None):
            return compose_hydra(config.stem, list(overrides))
    except HydraException as error:
        raise ConfigError(f"{config}: {error}") from error


def write_files(settings: Any) -> list[str]:
    """Write `data.train_files` and `data.val_files` from the step rows of `steps`; gives a line on each."""
    from r1_router.training.verl_rows import fitted, own_question, require_readable, write_verl_rows

    steps, model = settings.steps, settings.actor_rollout_ref.model.path
    told = []
    for rows, path in ((steps.train, settings.data.train_files), (steps.valid, settings.data.val_files)):
        prompts = read_prompts(Path(rows), step_types=STEP_TYPES, sees_images=True)
        require_readable(prompts)
        fits = fitted(prompts, model, settings.data.max_prompt_length, steps.max_pixels)
        places = places_by_id(Path(rows), own_question) if steps.get("live") else None
        write_verl_rows(Path(path), fits.prompts, steps.max_pixels, places)
        told.append(f"{path}: {len(fits.prompts)} prompts, {fits.shortened} lost passages, {fits.dropped} dropped")
    return told
