"""The in-process engine: the same tokens as the library's own `generate`, whatever is decoded beside them."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from r1_router.dtypes import fast_bfloat16, torch_dtype
from r1_router.errors import ConfigError, EngineError
from r1_router.llm.decoding import Decoder, Request
from r1_router.llm.slots import ATTENTION, register_attention
from r1_router.llm.transformers import TransformersLLM
from r1_router.types import Message, Reply, Sampling
from tiny_models import save_tiny_model

SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"), request.param)


def chats(n: int) -> list[list[Message]]:
    """Chats of many lengths, every third without a system text."""
    texts = ["x" * (7 * i % 50) + f" question {i}" for i in range(n)]
    return [([SYSTEM] if i % 3 else []) + [{"role": "user", "content": text}] for i, text in enumerate(texts)]


def ask(llm: TransformersLLM, chats: Sequence[list[Message]], samplings: Sequence[Sampling]) -> list[Reply]:
    async def go() -> list[Reply]:
        return await asyncio.gather(*(llm.chat(c, sampling=s) for c, s in zip(chats, samplings, strict=True)))

    return asyncio.run(go())


def by_generate(model: Path, chats: Sequence[list[Message]], samplings: Sequence[Sampling]) -> list[str]:
    """Each chat alone, by the library."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    weights = AutoModelForCausalLM.from_pretrained(model)
    banned = [256, 257, 259, *range(260, 272)]
    texts = []
    for chat, sampling in zip(chats, samplings, strict=True):
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        output = weights.generate(
            **prompt, do_sample=False, max_new_tokens=sampling.max_tokens, suppress_tokens=banned, pad_token_id=256
        )
        texts.append(tokenizer.decode(output[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True))
    return texts


def test_same_text_as_generate_with_rows_joining_and_leaving(model: Path) -> None:
    many = chats(20)
    samplings = [Sampling(max_tokens=3 + 5 * i % 30) for i in range(20)]
    replies = ask(TransformersLLM(model, batch=6), many, samplings)
    assert [reply.text for reply in replies] == by_generate(model, many, samplings)
    assert all(0 < reply.completion_tokens <= s.max_tokens for reply, s in zip(replies, samplings, strict=True))
    assert replies[0].prompt_tokens == len("user\n question 0\nassistant\n") + 3


def test_a_seed_gives_the_same_text_whatever_is_beside_it(model: Path) -> None:
    llm = TransformersLLM(model, batch=4)
    sampled = Sampling(temperature=1.0, top_k=20, max_tokens=20, seed=11)
    alone = ask(llm, chats(1), [sampled])[0].text
    crowd = ask(llm, chats(7), [sampled, *[Sampling(temperature=1.0, max_tokens=9, seed=i) for i in range(6)]])[0].text
    other = ask(llm, chats(1), [Sampling(temperature=1.0, top_k=20, max_tokens=20, seed=12)])[0].text
    assert alone == crowd != other


def test_special_tokens_are_never_drawn(model: Path) -> None:
    """At this temperature every token is about as likely: 272 ids, of which 15 must not come."""
    llm = TransformersLLM(model)
    drawn: list[int] = []
    tokens_to_text = llm._tokenizer.decode

    def record(ids: list[int], **options: bool) -> str:
        drawn.extend(ids)
        text: str = tokens_to_text(ids, **options)
        return text

    llm._tokenizer.decode = record
    ask(llm, chats(40), [Sampling(temperature=100.0, top_k=0, max_tokens=60, seed=i) for i in range(40)])
    assert len(drawn) > 500
    assert max(drawn) < 256


def test_a_reply_ends_at_the_end_of_the_turn(model: Path) -> None:
    llm = TransformersLLM(model)
    replies = ask(llm, chats(40), [Sampling(temperature=100.0, top_k=0, max_tokens=400, seed=i) for i in range(40)])
    assert sum(reply.completion_tokens < 400 for reply in replies) > 10
    assert not any("<|im_end|>" in reply.text for reply in replies)


def test_images_are_dropped(model: Path) -> None:
    llm = TransformersLLM(model)
    parts = [{"type": "text", "text": "hello"}, {"type": "image", "image": "missing.png"}]
    short = Sampling(max_tokens=5)
    with_image, without = ask(llm, [[{"role": "user", "content": c}] for c in (parts, "hello")], [short, short])
    assert with_image == without


def test_too_long_a_prompt_fails_alone(model: Path) -> None:
    llm = TransformersLLM(model, context=64)

    async def go() -> list[Reply | BaseException]:
        texts = ["y" * 100, "short"]
        calls = [llm.chat([{"role": "user", "content": text}], sampling=Sampling(max_tokens=100)) for text in texts]
        return await asyncio.gather(*calls, return_exceptions=True)

    long, short = asyncio.run(go())
    assert isinstance(long, EngineError) and "context holds 64" in str(long)
    assert isinstance(short, Reply) and short.prompt_tokens + short.completion_tokens <= 64


def test_failure_while_decoding_reaches_every_chat_and_the_engine_lives_on(model: Path) -> None:
    llm = TransformersLLM(model)
    read = llm._decoder._read
    llm._decoder._read = lambda group: 1 / 0  # type: ignore[assignment,return-value]

    async def go() -> list[Reply | BaseException]:
        calls = [llm.chat(chat, sampling=Sampling(max_tokens=3)) for chat in chats(3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(outcome, EngineError) for outcome in asyncio.run(go()))
    llm._decoder._read = read  # type: ignore[method-assign]
    assert all(isinstance(outcome, Reply) for outcome in asyncio.run(go()))


def test_adapter_changes_the_replies_as_peft_does(model: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    tuned = get_peft_model(
        AutoModelForCausalLM.from_pretrained(model),
        LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False),
    )
    tuned.save_pretrained(tmp_path / "adapter")
    tuned.merge_and_unload().save_pretrained(tmp_path / "merged")
    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path / "merged")
    samplings = [Sampling(max_tokens=20)] * 4
    adapted = ask(TransformersLLM(model, adapter=tmp_path / "adapter"), chats(4), samplings)
    assert [reply.text for reply in adapted] == by_generate(tmp_path / "merged", chats(4), samplings)
    assert adapted != ask(TransformersLLM(model), chats(4), samplings)


def test_bfloat16_replies(model: Path) -> None:
    assert ask(TransformersLLM(model, dtype="bfloat16"), chats(3), [Sampling(max_tokens=4)] * 3)[0].completion_tokens


def test_auto_dtype_on_a_gpu_is_bfloat16_whichever_gpu_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r1_router.dtypes.fast_bfloat16", lambda: False)
    assert [torch_dtype("auto", device) for device in ("cuda", "cuda:1", "cpu")] == [
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
    ]


def test_a_model_whose_every_token_may_be_drawn_decodes(model: Path) -> None:
    register_attention()
    weights = AutoModelForCausalLM.from_pretrained(model, attn_implementation=ATTENTION)
    request = Request([1, 2, 3], 0, Sampling(max_tokens=2))
    decoder = Decoder(weights, stops=[], banned=[], context=16)
    assert decoder.advance([request]) == [request] and len(request.output) == 2


def test_auto_dtype_follows_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("flags : avx512_bf16 amx_tile")
    (tmp_path / "old").write_text("flags : avx2")
    assert fast_bfloat16(tmp_path / "new")
    assert not fast_bfloat16(tmp_path / "old") and not fast_bfloat16(tmp_path / "none")


def test_wrong_settings_say_what_is_known(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="float32, bfloat16"):
        TransformersLLM(model, dtype="float8")
    with pytest.raises(EngineError, match="r1-router models"):
        TransformersLLM(tmp_path / "nothing")


def test_an_engine_that_is_let_go_is_freed(model: Path) -> None:
    llm = TransformersLLM(model)
    ask(llm, chats(2), [Sampling(max_tokens=4)] * 2)
    gone = weakref.ref(llm)
    gc.disable()
    try:
        del llm
        assert gone() is None
    finally:
        gc.enable()
