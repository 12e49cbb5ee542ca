"""Runs made by hand for the report's tests, tame ones and ones whose every text is hostile."""

from __future__ import annotations

from r1_router.report import MethodRun
from r1_router.summary import summarise
from r1_router.types import TEXT, Answer, Passage, Plan, Question, Source, Step, Trajectory, Usage

NASTY = """<script>alert('1')</script>"&|`"""
USAGE = Usage(calls=3, retrievals=1, prompt_tokens=90, completion_tokens=9, seconds=0.5)


def trajectory(number: int, answer: str, *, text: str = "Capital of Fiji?", hops: int = 1) -> Trajectory:
    question = Question(str(number), text, ["Suva"], extra={"n_hops": hops, "wording": "seen", "kind": "fact"})
    step = Step(Plan("known: nothing.", "capital of fiji?", (TEXT,)), (Passage("p", "Fiji: <b>Suva</b>", 1.0, TEXT),))
    return Trajectory(question, (step,), Answer("", answer))


def run(*trajectories: Trajectory, method: str = "r1-router", benchmark: str = "b") -> MethodRun:
    summary = summarise(trajectories, benchmark=benchmark, method=method, model="m", seconds_per_question=1.25)
    return summary | {"routing_accuracy": 0.5, "hit_at_5": {"text retriever": 1.0}}, trajectories


def routed(number: int, answer: str, *sources: Source, due: Source = TEXT, name: str = "") -> Trajectory:
    """A question with one gold hop, of `due`, asked of `sources` step by step; `name` ends every text there is."""
    gold = {"source": due.name, "gold_ids": ["g"], "answer": f"gold hop answer{name}"}
    extra = {"hops": [gold], "kind": f"kind {number % 2}{name}"}
    question = Question(str(number), f"question {number}{name}", [f"Suva gold{name}"], extra=extra)
    steps = [
        Step(
            Plan(f"thought{name}", f"query{name}", (source,)),
            (Passage("a", f"passage{name}", 1.0, source), Passage("g", f"gold passage{name}", 0.5, source)),
            Answer("", f"sub-answer{name}"),
        )
        for source in sources
    ]
    return Trajectory(question, (*steps, Step(Plan("", "none"))), Answer("", answer + name), USAGE)


def hostile_runs() -> list[MethodRun]:
    """A method that routes and one that does not, with every kind of loss; every text from data is hostile."""
    wild = Source(f"source{NASTY}", "wild", "anything")
    answers = [routed(n, "suva gold", TEXT, name=NASTY) for n in range(4)]
    lost = [
        routed(4, "x", wild, name=NASTY),
        routed(5, "x", TEXT, name=NASTY),
        routed(6, "x", wild, due=wild, name=NASTY),
    ]
    failed = Trajectory(answers[0].question, error=f"EngineError: down{NASTY}")
    everything = [
        Trajectory(one.question, (Step(Plan("", "q", (TEXT, wild)), one.steps[0].passages),), one.answer)
        for one in (*answers, *lost)
    ]
    return [run(*answers[1:], *lost, failed, method=f"router{NASTY}"), run(*everything, method=f"rag{NASTY}")]
