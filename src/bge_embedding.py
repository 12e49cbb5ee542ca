"""A corpus to vectors: `python bge_embedding.py --input corpora/wikipedia --output vectors/wikipedia`.

Give the output folder as a source's `vectors` in the config: `r1-router build` then only indexes it. A run that was cut
short goes on; started on several machines that share the disk, they divide the shards between them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from r1_router.published import main_of


def run(argv: Sequence[str] | None = None) -> None:
    """Embed what is not embedded yet and say where it is."""
    # Here and not above: every worker process imports this file again.
    from r1_router.console import step_bars
    from r1_router.encoder_kinds import best_device
    from r1_router.retrieval.embedding import open_job
    from r1_router.retrieval.embedding_engines import embed
    from r1_router.retrieval.encoders import SentenceEncoder

    args = parse(argv)
    device = args.device or best_device()
    make = partial(SentenceEncoder, args.model, max_tokens=args.max_length, batch_size=args.batch_size, device=device)
    job = open_job(args.input, args.output, make(), dtype=args.dtype, shard_rows=args.shard_size)
    with step_bars() as show:
        embed(
            job,
            make,
            engine=args.engine,
            workers=args.workers,
            progress=lambda done, total: show("passages", done, total),
        )
    print(f"{job.rows:,} vectors of {job.dim} dimensions in {job.folder}")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="a passages file, or a corpus folder")
    parser.add_argument("--output", type=Path, required=True, help="the vectors: a new folder, or one to go on with")
    parser.add_argument("--model", default="BAAI/bge-m3", help="a sentence-transformers model; %(default)s by default")
    parser.add_argument("--max_length", type=int, default=256, help="tokens of a passage; %(default)s by default")
    parser.add_argument(
        "--batch_size", type=int, default=32, help="passages encoded at once; %(default)s by default, more on a GPU"
    )
    parser.add_argument(
        "--dtype", choices=["float16", "float32"], default="float16", help="on the disk; %(default)s by default"
    )
    parser.add_argument("--shard_size", type=int, default=100_000, help="vectors a file; %(default)s by default")
    parser.add_argument("--device", help="cpu, cuda, ..; by default the GPU where there is one")
    parser.add_argument("--engine", default="local", help="local by default, or ray: workers of a Ray cluster")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes, each with a GPU where there is one; %(default)s by default"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    main_of(run)
