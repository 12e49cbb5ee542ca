"""How fast the routed loop is: beside one question at a time, beside the bare engine, and without any model.

    python benchmarks/inference.py [--questions 48] [--scripted 10000] [--config configs/factbook.yaml] [--engine vllm]
    PYTHONPATH=tests python benchmarks/inference.py --vision          a tiny random Qwen2.5-VL, questions with pictures

Three runs answer the same questions with the same model and the same replies (greedy): one question at a time, as the
reference works; this loop with its many questions in flight; and the bare engine, handed all the prompts of that run
at once, as if no prompt had to wait for an earlier reply. The last is the bound: what a loop could reach at best.

The scripted part puts a model in the loop that replies at once, so that what is left is the loop's own time.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from r1_router.config import DEFAULT_CONFIG, ENGINES, Config, load_config
from r1_router.deployment import Deployment
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings, make_method
from r1_router.prompts import load_prompts
from r1_router.replies import format_answer, format_plan
from r1_router.run import run_questions
from r1_router.types import LLM, TEXT, Message, Method, Passage, Query, Question, Reply, Retriever, Sampling, Source

METHOD = "r1-router"


@dataclass
class Recorder:
    """An engine that notes what it was asked and how much it wrote."""

    llm: LLM
    asked: list[tuple[tuple[Message, ...], Sampling]] = field(default_factory=list)
    tokens: int = 0

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        self.asked.append((tuple(messages), sampling))
        reply = await self.llm.chat(messages, sampling=sampling)
        self.tokens += reply.completion_tokens
        return reply


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one way to do the work, the calls made and the tokens written."""

    way: str
    seconds: float
    calls: int
    tokens: int


class OnePassage:
    """A knowledge base that finds the same passage at once."""

    async def search(self, query: Query, k: int) -> list[Passage]:
        return [Passage("p", "a passage of some eight words or so", 1.0, TEXT)] * k


def timed_run(
    way: str,
    method: Method,
    questions: Sequence[Question],
    llm: LLM,
    retrievers: Mapping[Source, Retriever],
    concurrency: int,
) -> tuple[Timing, Recorder]:
    """Run all questions into a file that is thrown away."""
    recorder = Recorder(llm)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        outcome = run_questions(
            method, questions, recorder, retrievers, path=Path(folder) / "r.jsonl", concurrency=concurrency
        )
        seconds = time.perf_counter() - started
    failed = [item.error for item in outcome.trajectories if item.error]
    if failed:
        raise SystemExit(f"{len(failed)} questions failed, the first: {failed[0]}")
    print(f"{way}: {len(questions)} questions in {seconds:.1f} s", file=sys.stderr, flush=True)
    return Timing(way, seconds, len(recorder.asked), recorder.tokens), recorder


def bare(llm: LLM, asked: Sequence[tuple[tuple[Message, ...], Sampling]]) -> Timing:
    """All prompts at once through the engine alone."""
    recorder = Recorder(llm)

    async def go() -> None:
        await asyncio.gather(*(recorder.chat(messages, sampling=sampling) for messages, sampling in asked))

    started = time.perf_counter()
    asyncio.run(go())
    return Timing("bare engine, all prompts at once", time.perf_counter() - started, len(asked), recorder.tokens)


def with_model(config: Config, count: int) -> list[Timing]:
    """The three runs of the deployment's model; the first chats, which warm it up, are not timed."""
    deployment = Deployment(config)
    questions = deployment.questions(next(iter(config.benchmarks)), count)
    return three_ways(deployment.llm(METHOD), deployment, METHOD, questions)


def with_pictures(config: Config, count: int) -> list[Timing]:
    """The same of a tiny random Qwen2.5-VL, which answers questions about pictures directly: it can write no plan."""
    from r1_router.llm.vision import VisionLLM
    from tiny_models import save_tiny_vision_model

    deployment = Deployment(replace(config, sampling=Sampling(max_tokens=64), variants={}, prompts="guided"))
    questions = [one for one in deployment.questions(next(iter(config.benchmarks))) if one.image][:count]
    with tempfile.TemporaryDirectory() as folder:
        return three_ways(VisionLLM(save_tiny_vision_model(Path(folder))), deployment, "direct", questions)


def three_ways(llm: LLM, deployment: Deployment, name: str, questions: Sequence[Question]) -> list[Timing]:
    """One question at a time, the loop, the bare engine; the same prompts in each."""
    retrievers, method = deployment.knowledge_bases(), deployment.method(name)
    timed_run("warm-up", method, questions[:4], llm, retrievers, 4)
    single, _ = timed_run("one question at a time", method, questions, llm, retrievers, 1)
    many, recorder = timed_run("this loop", method, questions, llm, retrievers, deployment.config.concurrency)
    return [single, many, bare(llm, recorder.asked)]


def scripted(count: int) -> Timing:
    """The loop with a model that replies at once: two steps, a stop and an answer a question."""

    def reply(messages: Sequence[Message]) -> str:
        system, user = messages[0]["content"], messages[-1]["content"]
        if "retriever" not in system:
            return format_answer("ter-0 tells it", "an answer")
        if user.count("Sub-question") == 2:
            return format_plan("nothing is missing", "none", "none")
        return format_plan("something is missing", "which one is it?", TEXT.name)

    method = make_method(METHOD, Settings(load_prompts("trained")))
    questions = [Question(f"q{n}", f"Which one is number {n}?", ["it"]) for n in range(count)]
    return timed_run("scripted", method, questions, ScriptedLLM(reply), {TEXT: OnePassage()}, 64)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=48, help="for the runs with the model; 0 leaves them out")
    parser.add_argument("--scripted", type=int, default=10_000, help="for the run without one; likewise")
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    parser.add_argument("--engine", choices=ENGINES, help="another than the config's")
    parser.add_argument("--vision", action="store_true", help="a tiny random Qwen2.5-VL in the model's place")
    args = parser.parse_args()
    config = load_config(args.config)
    if args.engine:
        config = replace(config, llm=replace(config.llm, engine=args.engine))
    console = Console(width=120)
    if args.scripted:
        loop = scripted(args.scripted)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        console.print(
            f"{args.scripted} scripted questions: {loop.seconds:.1f} s, "
            f"{1000 * loop.seconds / loop.calls:.2f} ms a call ({loop.calls} calls), {memory:.2f} GB at most"
        )
    if not args.questions:
        return
    timings = (with_pictures if args.vision else with_model)(config, args.questions)
    table = Table("way", "seconds", "calls", "tokens / s", "times the first", "of the bare engine")
    for one in timings:
        ratio, share = timings[0].seconds / one.seconds, timings[-1].seconds / one.seconds
        rate = f"{one.tokens / one.seconds:.0f}"
        table.add_row(one.way, f"{one.seconds:.1f}", str(one.calls), rate, f"{ratio:.2f}", f"{share:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
