"""The parts of Step-GRPO, each by itself: prompts, batches, packed groups, sampling from a copy, rewards."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reward_samples import HashEncoder

torch = pytest.importorskip("torch", reason="training needs the extra: pip install 'r1-router[train]'")
pytest.importorskip("peft", reason="training needs the extra: pip install 'r1-router[train]'")

from r1_router.errors import ConfigError, DataError  # noqa: E402
from r1_router.prompts import load_prompts  # noqa: E402
from r1_router.prompts.messages import answer_messages  # noqa: E402
from r1_router.reward_rules import REFERENCE  # noqa: E402
from r1_router.synthesis.flat import write_flat  # noqa: E402
from r1_router.training.grpo.batches import plan, repeated  # noqa: E402
from r1_router.training.grpo.config import GrpoConfig  # noqa: E402
from r1_router.training.grpo.model import load_policy  # noqa: E402
from r1_router.training.grpo.packing import PACK_TOKENS, packed_log_probs, packs  # noqa: E402
from r1_router.training.grpo.prompts import StepPrompt, fit, read_prompts  # noqa: E402
from r1_router.training.grpo.rewarding import StepRewards  # noqa: E402
from r1_router.training.grpo.rollouts import Rollouts  # noqa: E402
from r1_router.training.grpo.variation import under_other_names  # noqa: E402
from r1_router.training.merged_lora import merged_weights  # noqa: E402
from r1_router.training.swaps import Swapper  # noqa: E402
from r1_router.types import Message, Passage, Query  # noqa: E402
from tiny_policy import REPLIES, TOLD, save_policy_model, write_steps  # noqa: E402

ALL = ("ret", "ans", "final")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def policy(model: Path, tmp_path: Path) -> Any:
    """The tiny model with an adapter that does something."""
    config = GrpoConfig(model, tmp_path / "none", tmp_path / "out", rank=4, alpha=8)
    made = load_policy(config, "cpu")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def test_nested_and_flat_rows_give_the_same_prompts_with_the_final_step_told_apart(tmp_path: Path) -> None:
    nested = write_steps(tmp_path / "nested.jsonl", rows=2)
    write_flat(tmp_path / "flat.jsonl", map(json.loads, nested.read_text().splitlines()))
    prompts = read_prompts(nested, step_types=ALL, sees_images=False)
    assert prompts == read_prompts(tmp_path / "flat.jsonl", step_types=ALL, sees_images=False)
    assert [prompt.step_type for prompt in prompts] == ["ret", "ans", "ret", "final"] * 2
    assert json.loads(prompts[3].target) == ["peru", "Peru"]
    finals = read_prompts(nested, step_types=("final",), sees_images=False)
    assert [prompt.id for prompt in finals] == ["1-4", "2-4"]


def test_an_image_stands_after_the_text_as_at_inference_or_not_at_all(tmp_path: Path) -> None:
    target = {"query": "q", "retriever": []}
    step = {"step_type": "ret", "system": "plan", "problem": "Origin question: x\n<image>", "answer": target}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"images": ["flag.jpg"], "steps": [step]}) + "\n")
    (seen,) = read_prompts(path, step_types=ALL, sees_images=True)
    assert seen.messages[1]["content"] == [
        {"type": "text", "text": "Origin question: x\n"},
        {"type": "image", "image": str(tmp_path / "flag.jpg")},  # paths start from the rows' folder
    ]
    (blind,) = read_prompts(path, step_types=ALL, sees_images=False)
    assert blind.messages[1]["content"] == "Origin question: x\n" and blind.images == ()


def test_names_are_swapped_in_the_chat_and_the_target_alike() -> None:
    swapper = Swapper(["Peru", "Chad"], [], ["Aa", "Bb", "Cc"])
    message = {"role": "user", "content": 'Origin question: what is the capital of peru? "Chad"'}
    prompt = StepPrompt(
        "1-1", 1, 1, "final", ({"role": "system", "content": "peru"}, message), (), '["Peru", "peru s"]'
    )
    (swapped,) = under_other_names([prompt], swapper, 1.0, seed=0)
    new = json.loads(swapped.target)[0]
    assert new != "Peru" and json.loads(swapped.target)[1] == f"{new.lower()} s"
    assert f"of {new.lower()}?" in swapped.messages[1]["content"] and "Chad" not in swapped.messages[1]["content"]
    assert swapped.messages[0] == prompt.messages[0]
    shown = dataclasses.replace(prompt, images=("flag.png",))
    assert under_other_names([shown], swapper, 1.0, seed=0) == [shown]
    assert under_other_names([prompt] * 9, swapper, 0.0, seed=0) == [prompt] * 9


def answering(passages: int) -> StepPrompt:
    found = [Passage(str(n), "word " * 10, 1.0, TOLD) for n in range(passages)]
    messages = answer_messages(load_prompts("trained"), Query("who?"), found)
    return StepPrompt("1-1", 1, 1, "ans", tuple(messages), (), '"x"')


def words(messages: Sequence[Message]) -> int:
    return sum(len(message["content"].split()) for message in messages)


def test_too_long_a_prompt_loses_passages_from_the_end_and_never_the_question() -> None:
    fitted = fit([answering(1), answering(5)], words, 32, shorten=True)
    assert (fitted.shortened, fitted.dropped) == (1, 0)
    text = fitted.prompts[1].messages[-1]["content"]
    assert text.startswith("ter-0: ") and "ter-1: " in text and "ter-2: " not in text and text.endswith("who?")


def test_what_cannot_be_shortened_is_dropped_and_counted() -> None:
    route = StepPrompt("1-1", 1, 1, "ret", ({"role": "user", "content": "word " * 50},), (), "{}")
    fitted = fit([answering(1), route], words, 32, shorten=True)
    assert (len(fitted.prompts), fitted.shortened, fitted.dropped) == (1, 0, 1)
    assert fit([answering(1), answering(5)], words, 32, shorten=False).dropped == 1
    with pytest.raises(ConfigError, match="max_prompt"):
        fit([route], words, 32, shorten=True)


def prompts_of(rows: int, steps: int, with_image: int) -> list[StepPrompt]:
    """`rows` trajectories of `steps` steps; of the first `with_image` each step shows a picture."""
    pictures = [("flag.jpg",) if row < with_image else () for row in range(rows)]
    return [
        StepPrompt(f"{row}-{n}", row, n + 1, "ret", (), pictures[row], "") for row in range(rows) for n in range(steps)
    ]


def test_batches_hold_all_prompts_and_never_mix_those_with_and_without_images() -> None:
    prompts = prompts_of(rows=10, steps=3, with_image=4)
    batches = plan(prompts, 4, 15, seed=1)
    assert batches == plan(prompts, 4, 15, seed=1) != plan(prompts, 4, 15, seed=2)
    assert all(len({bool(prompts[index].images) for index in batch}) == 1 for batch in batches)
    drawn = Counter(index for batch in batches for index in batch)
    assert len(drawn) == 30 and max(drawn.values()) - min(drawn.values()) <= 1


def test_a_trajectory_stays_together_when_asked() -> None:
    prompts = prompts_of(rows=8, steps=4, with_image=0)
    for batch in plan(prompts, 8, 4, seed=0, keep_together=True):
        assert sorted(Counter(prompts[index].row for index in batch).values()) == [4, 4]


def test_fewer_prompts_than_a_batch_are_taken_again() -> None:
    assert sorted(plan(prompts_of(1, 3, 0), 6, 1, seed=0)[0]) == [0, 0, 1, 1, 2, 2]
    assert repeated([[5, 7]], group=2, uses=2) == [5, 5, 7, 7, 5, 5, 7, 7]


def padded(prompts: list[list[int]], replies: list[list[int]]) -> tuple[Any, Any, int]:
    """Rows as TRL has them: prompts padded on the left, replies on the right."""
    wide, keep = max(map(len, prompts)), max(map(len, replies))
    pairs = list(zip(prompts, replies, strict=True))
    ids = [[1] * (wide - len(p)) + p + r + [1] * (keep - len(r)) for p, r in pairs]
    mask = [[0] * (wide - len(p)) + [1] * (len(p) + len(r)) + [0] * (keep - len(r)) for p, r in pairs]
    return torch.tensor(ids), torch.tensor(mask), keep


@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_a_pack_has_the_log_probabilities_entropies_and_gradients_of_its_rows(policy: Any, temperature: float) -> None:
    prompts = [[3, 8, 9, 4]] * 3 + [[5, 10]] * 2
    replies = [[14, 2], [15, 16, 2], [9], [14, 15, 2], [17, 2]]
    ids, mask, keep = padded(prompts, replies)
    log_probs, entropies = packed_log_probs(policy, ids, mask, keep, temperature)
    assert len(list(packs(ids, mask, keep))) == 2
    log_probs.sum().backward()
    gradients = taken_gradients(policy)
    total = torch.zeros(())
    for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        logits = policy(input_ids=torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1] / temperature
        spread = torch.log_softmax(logits, -1)
        expected = spread[range(len(reply)), reply]
        torch.testing.assert_close(log_probs[row, : len(reply)], expected)
        torch.testing.assert_close(entropies[row, : len(reply)], -(spread.exp() * spread).sum(-1))
        assert not log_probs[row, len(reply) :].any()
        total = total + expected.sum()
    total.backward()
    for ours, theirs in zip(gradients, taken_gradients(policy), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def taken_gradients(policy: Any) -> list[Any]:
    found = [parameter.grad for parameter in policy.parameters() if parameter.requires_grad]
    policy.zero_grad(set_to_none=True)
    return found


def test_a_long_pack_is_parted() -> None:
    ids, mask, keep = padded([[3] * 600] * 3, [[14] * 400] * 3)
    sizes = [len(pack.rows) for pack in packs(ids, mask, keep)]
    assert sizes == [2, 1] and PACK_TOKENS == 1024


def test_the_copy_has_the_policys_weights_of_the_moment(policy: Any, model: Path) -> None:
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    own = dict(plain.named_parameters())
    with torch.no_grad():
        for name, weight in merged_weights(policy):
            own[name].copy_(weight)
        ids = torch.tensor([[3, 8, 9, 14]])
        torch.testing.assert_close(plain(ids).logits, policy(input_ids=ids).logits)


def sampled(rollouts: Rollouts, policy: Any, step: int, asked: list[str], **settings: Any) -> list[list[int]]:
    config = {"temperature": 1.0, "top_k": 0, "max_tokens": 4, "seed": 0, "rollout_batch": 3} | settings
    trainer = SimpleNamespace(
        state=SimpleNamespace(global_step=step),
        step_config=SimpleNamespace(**config),
        model=policy,
        accelerator=SimpleNamespace(unwrap_model=lambda wrapped: wrapped),
    )
    output = rollouts([[{"role": "user", "content": text}] for text in asked], trainer)
    return list(output["completion_ids"])


def test_replies_depend_on_seed_update_and_prompt_only_and_hold_no_mark_before_their_end(
    policy: Any, model: Path
) -> None:
    from transformers import AutoTokenizer

    rollouts = Rollouts(model, AutoTokenizer.from_pretrained(model), torch.float32, "cpu")
    asked = ["which country"] * 8 + ["plan"] * 8
    replies = sampled(rollouts, policy, 1, asked)
    assert replies == sampled(rollouts, policy, 1, asked, rollout_batch=16)
    assert replies[8:] == sampled(rollouts, policy, 1, ["plan"] * 8)
    assert replies != sampled(rollouts, policy, 2, asked) and replies != sampled(rollouts, policy, 1, asked, seed=1)
    assert len({tuple(reply) for reply in replies[:8]}) > 2
    for reply in replies:
        assert not {0, 1, 2} & set(reply[:-1])
        assert reply[-1] == 2 or len(reply) == 4


def test_rewards_are_the_step_rewards_and_every_part_is_logged() -> None:
    told: dict[str, float] = {}
    texts = [REPLIES[0], REPLIES[1], REPLIES[2], "nonsense"]
    golds = ['["peru"]', '["peru"]', '{"query": "who", "retriever": ["table"]}', '"x"']
    asked: Any = {
        "completions": [[{"role": "assistant", "content": text}] for text in texts],
        "completion_ids": [[14, 2], [15, 2], [2, 16, 2], [5]],
        "target": golds,
        "step_type": ["final", "final", "ret", "ans"],
        "log_metric": told.__setitem__,
    }
    assert StepRewards(HashEncoder(), [TOLD], REFERENCE, special={2})(**asked) == [1.0, 0.0, 0.5, 0.0]
    assert told["reward/answer"] == pytest.approx(1 / 3) and told["reward/query"] == 0.5 and told["reward/route"] == 0.0
    assert told["watch/malformed"] == told["watch/special_tokens"] == 0.25
    assert StepRewards(HashEncoder(), [TOLD], REFERENCE, parts=["route"])(**asked) == [0.0] * 4


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"step_types": ("rat",)}, "step_types"),
        ({"loss": "ppo"}, "loss"),
        ({"group": 1}, "group"),
        ({"temperature": 0.0}, "temperature"),
        ({"prompts": 6, "groups_per_pass": 4}, "groups_per_pass"),
        ({"updates_per_rollout": 3}, "checkpoint_updates"),
        ({"reward_parts": ("form",)}, "reward_parts"),
        ({"max_norm": 0.0}, "max_norm"),
        ({"swap_share": 1.5}, "swap_share"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path: Path, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        GrpoConfig(tmp_path, tmp_path, tmp_path, **settings)


def test_rows_of_no_step_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"images": [], "steps": [{"step_type": "ret"}]}\n')
    with pytest.raises(DataError):
        read_prompts(path, step_types=ALL, sees_images=False)
