"""The in-process engines, an encoder and a training step on this machine's GPU: the same as the CPU, and how fast.

    bash scripts/gpu_check.sh [--sizes 1,4,16,64,256] [--tokens 64]

Greedy replies of a tiny model in float32 must be those of the CPU, token for token, and vectors and losses its figures
to 1e-3; then tokens or texts per second and the most memory by batch size, in bfloat16. Without a GPU it checks the CPU
against itself, which shows only that the check runs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from r1_router.llm.transformers import TransformersLLM
from r1_router.llm.vision import VisionLLM
from r1_router.types import LLM, Message, Sampling
from tiny_models import save_tiny_model, save_tiny_vision_model

EMBEDDED = Path("models/SmolLM2-135M-Instruct")
GPU = torch.cuda.is_available()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    batch: int
    rate: str
    memory: str


def chats(count: int, image: str | None = None) -> list[list[Message]]:
    """Prompts of different lengths, each with the picture where there is one."""
    texts = [f"question {number}: " + "word " * (5 + number % 40) for number in range(count)]
    if image is None:
        return [[{"role": "user", "content": text}] for text in texts]
    picture = {"type": "image", "image": image}
    return [[{"role": "user", "content": [{"type": "text", "text": text}, picture]}] for text in texts]


def replies(llm: LLM, asked: Sequence[list[Message]], tokens: int) -> tuple[list[str], int]:
    """All chats at once; gives the texts and how many tokens were written."""

    async def go() -> list[Any]:
        return await asyncio.gather(*(llm.chat(chat, sampling=Sampling(max_tokens=tokens)) for chat in asked))

    found = asyncio.run(go())
    return [reply.text for reply in found], sum(reply.completion_tokens for reply in found)


def on_cpu(make: Callable[[], LLM]) -> LLM:
    """An engine made as if there were no GPU."""
    available = torch.cuda.is_available
    torch.cuda.is_available = lambda: False
    try:
        return make()
    finally:
        torch.cuda.is_available = available


def same_replies(what: str, make: Callable[[], LLM], asked: Sequence[list[Message]]) -> None:
    """Float32, greedy: token for token what the CPU writes."""
    here, there = replies(make(), asked, 24)[0], replies(on_cpu(make), asked, 24)[0]
    agree = sum(a == b for a, b in zip(here, there, strict=True))
    print(f"{what}: {agree} of {len(here)} replies are the CPU's", flush=True)
    if agree < len(here):
        raise SystemExit(f"{what}: the GPU writes other replies in float32.")


def timed(what: str, llm: LLM, sizes: Sequence[int], tokens: int, image: str | None = None) -> Iterator[Row]:
    """Tokens per second by batch size; the first batch, which warms up, is not timed."""
    replies(llm, chats(2, image), 4)
    for size in sizes:
        if GPU:
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        written = replies(llm, chats(size, image), tokens)[1]
        seconds = time.perf_counter() - started
        memory = f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB" if GPU else "-"
        yield Row(what, size, f"{written / seconds:.0f} tokens/s", memory)


def training_step(folder: Path) -> Row:
    """Five LoRA steps as `train sft` takes them: the loss on both devices, and steps per second here."""
    from r1_router.training.data import Example, pad
    from r1_router.training.model import completion_loss, load_model
    from r1_router.training.sft import SftConfig

    ids = torch.randint(0, 255, (8, 256), generator=torch.Generator().manual_seed(0)).tolist()
    batch = pad([Example(tuple(row), prompt_length=200) for row in ids], 0)
    losses, rate = [], 0.0
    for device in ("cpu", "cuda") if GPU else ("cpu", "cpu"):
        model = load_model(SftConfig(folder, folder, folder, rank=8), device)
        optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-3, fused=True)
        started = time.perf_counter()
        for _ in range(5):
            loss = completion_loss(model, batch.to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        rate = 5 / (time.perf_counter() - started)
    if abs(losses[0] - losses[1]) > 1e-3 * abs(losses[0]):
        raise SystemExit(f"training: the loss after 5 steps is {losses[1]} here and {losses[0]} on the CPU.")
    return Row("training step, tiny, LoRA", 8, f"{rate:.1f} steps/s", "-")


def encoder_rate(folder: Path, sizes: Sequence[int]) -> Iterator[Row]:
    """Mean-pooled vectors of a tiny BERT-like model: equal to the CPU's, and texts per second."""
    from transformers import AutoModel

    here = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(0, 255, (max(sizes), 128), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        there = here(input_ids=ids[:4]).last_hidden_state.mean(dim=1)
        here = here.to("cuda" if GPU else "cpu")
        found = here(input_ids=ids[:4].to(here.device)).last_hidden_state.mean(dim=1).cpu()
        if not torch.allclose(found, there, atol=1e-3):
            raise SystemExit("encoder: the vectors differ from the CPU's by more than 1e-3.")
        for size in sizes:
            started = time.perf_counter()
            here(input_ids=ids[:size].to(here.device)).last_hidden_state.mean(dim=1).cpu()
            yield Row("encoder, tiny", size, f"{size / (time.perf_counter() - started):.0f} texts/s", "-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1,4,16,64,256", help="batch sizes")
    parser.add_argument("--tokens", type=int, default=64, help="written per chat when timed")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    print(
        torch.cuda.get_device_name() if GPU else "no GPU: the CPU against itself",
        f"torch {torch.__version__}",
        flush=True,
    )
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as work:
        text, vision = save_tiny_model(Path(work) / "text"), save_tiny_vision_model(Path(work) / "vision")
        picture = str(Path(work) / "picture.png")
        from PIL import Image

        Image.new("RGB", (90, 60), "red").save(picture)
        same_replies("text engine", lambda: TransformersLLM(text), chats(16))
        same_replies("vision engine, text", lambda: VisionLLM(vision), chats(8))
        same_replies("vision engine, pictures", lambda: VisionLLM(vision), chats(8, picture))
        rows += timed("text engine, tiny", TransformersLLM(text, dtype="bfloat16", batch=256), sizes, args.tokens)
        rows += timed(
            "vision engine, tiny, pictures", VisionLLM(vision, dtype="bfloat16", batch=256), sizes, args.tokens, picture
        )
        if EMBEDDED.is_dir():
            rows += timed(
                "text engine, SmolLM2-135M", TransformersLLM(EMBEDDED, dtype="bfloat16", batch=256), sizes, args.tokens
            )
        rows += encoder_rate(text, sizes)
        rows.append(training_step(text))
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"{row.what:{width}}  {row.batch:4}  {row.rate:>16}  {row.memory}")


if __name__ == "__main__":
    main()
