"""Where a job's shards are embedded: in this process, in several, or by workers of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

from r1_router.errors import ConfigError, KnowledgeBaseError, MissingDependency
from r1_router.retrieval.embedding import (
    Job,
    Progress,
    StoredVectors,
    embed_shard,
    embed_shards,
    open_vectors,
    rows_done,
)
from r1_router.retrieval.vectors import PassageEncoder

MakeEncoder = Callable[[], PassageEncoder]
"""Called in each worker, so it must be something that pickle takes: a function of a module, or a `partial` of one."""
ENGINES = ("local", "ray")
POLL = 0.5  # seconds between two looks at what the workers have done
INSTALL = 'pip install "ray[data]==2.60.0"'


def embed(
    job: Job,
    make_encoder: MakeEncoder,
    *,
    engine: str = "local",
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> StoredVectors:
    """Make the vectors that are not there yet, and open them all.

    Workers take a GPU each, by turns where there are fewer. `ray` needs a disk that all its machines see, and runs on
    the cluster that RAY_ADDRESS names, else on this machine.
    """
    if engine not in ENGINES:
        raise ConfigError(f"--engine: {engine!r} is not known; there are {', '.join(ENGINES)}.")
    if workers < 1:
        raise ConfigError(f"{workers} workers embed nothing: give 1 or more.")
    if not job.is_done:
        if engine == "ray":
            _embed_on_ray(job, make_encoder, workers, progress)
        elif workers > 1:
            _embed_in_processes(job, make_encoder, workers, progress)
        else:
            embed_shards(job, make_encoder(), progress)
    return open_vectors(job)


def _embed_in_processes(job: Job, make_encoder: MakeEncoder, workers: int, progress: Progress) -> None:
    # Spawned: a fork of a process with threads (a progress bar is one) may hang.
    context, gpus = get_context("spawn"), visible_gpus()
    processes = [
        context.Process(target=_work, args=(job, make_encoder, gpus[number % len(gpus)] if gpus else None), daemon=True)
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        while working := [process.sentinel for process in processes if process.is_alive()]:
            wait(working, POLL)
            progress(rows_done(job), job.rows)
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if failed := [process.exitcode for process in processes if process.exitcode]:
        raise KnowledgeBaseError(
            f"{len(failed)} of {workers} embedding workers ended with exit code {failed[0]}; what they did is kept: "
            "the same command goes on, with fewer workers if memory was short."
        )


def _work(job: Job, make_encoder: MakeEncoder, gpu: str | None) -> None:
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    embed_shards(job, make_encoder(), _end_with_parent)


def _end_with_parent(done: int, total: int) -> None:
    """Called between chunks: no worker outlives a build that was killed."""
    parent = parent_process()
    if parent is not None and not parent.is_alive():
        os._exit(1)


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return named.split(",")
    try:
        import torch
    except ImportError:
        return []
    return [str(number) for number in range(torch.cuda.device_count())]


def _embed_on_ray(job: Job, make_encoder: MakeEncoder, workers: int, progress: Progress) -> None:
    try:
        import ray
    except ImportError as error:
        raise MissingDependency(f"The engine ray needs Ray Data: {INSTALL}") from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False)
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    missing = [{"shard": shard} for shard in range(job.shards) if not job.path(shard).exists()]
    done = ray.data.from_items(missing).map_batches(
        ShardEmbedder,
        fn_constructor_args=(job, make_encoder),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_gpus=gpus,
    )
    for _ in done.iter_rows():
        progress(rows_done(job), job.rows)


class ShardEmbedder:
    """A worker of Ray Data's: its encoder is loaded once, then a batch is one shard's number."""

    def __init__(self, job: Job, make_encoder: MakeEncoder) -> None:
        self._job = job
        self._encoder = make_encoder()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for shard in batch["shard"]:
            embed_shard(self._job, int(shard), self._encoder)
        return batch
