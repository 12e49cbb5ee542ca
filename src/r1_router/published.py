"""What the published commands share: their flags, and how they end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from r1_router.config import DEFAULT_CONFIG, load_config
from r1_router.deployment import Deployment
from r1_router.errors import R1RouterError
from r1_router.synthesize import Synthesis

ROOT = Path(__file__).resolve().parents[2]
FRESH = "put files aside that other settings made"


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of a stage, by their published names."""
    parser.add_argument("--dataset_name", required=True, help="a benchmark of the config")
    parser.add_argument("--method", default="r1-router", help="r1-router, or a variant of it in the config")
    parser.add_argument("--model_name", help="the folder under results/; the config's llm.name by default")
    parser.add_argument("--step", type=int, required=True, help="which step, from 0")
    parser.add_argument("--max_step", type=int, help="steps at most; the config's max_steps by default")
    parser.add_argument("--config", type=Path, default=ROOT / DEFAULT_CONFIG, help="the deployment")
    parser.add_argument("--fresh", action="store_true", help=FRESH)


def deployment_of(args: argparse.Namespace) -> Deployment:
    """The deployment that the flags ask for."""
    config = load_config(args.config)
    if args.model_name:
        config = replace(config, llm=replace(config.llm, name=args.model_name))
    if args.max_step is not None:
        config = replace(config, max_steps=args.max_step)
    return Deployment(config)


def synthesis_of(about: str, *, dataset: bool) -> tuple[Synthesis, argparse.Namespace]:
    """The synthesis of the config that the flags of a synthesis command name."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if dataset:
        parser.add_argument("--dataset_name", required=True, help="a set of the config's `synthesis` section")
        parser.add_argument("--fresh", action="store_true", help=FRESH)
    parser.add_argument("--config", type=Path, default=ROOT / DEFAULT_CONFIG, help="the deployment")
    args = parser.parse_args()
    return Synthesis(Deployment(load_config(args.config)), fresh=dataset and args.fresh), args


def main_of(run: Callable[[], None]) -> None:
    """Run a command; an error raised on purpose is one line and exit code 1, Ctrl-C is exit code 130."""
    try:
        run()
    except R1RouterError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from here.", file=sys.stderr)
        sys.exit(130)
