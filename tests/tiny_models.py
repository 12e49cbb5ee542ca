"""Tiny random models with a byte-level tokenizer, made on the spot: the real classes, in milliseconds."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_pad|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "vocab_size": 272,
    "eos_token_id": 258,
    "pad_token_id": 256,
    "bos_token_id": 257,
}


def save_tiny_model(folder: Path, family: str = "llama", seed: int = 0) -> Path:
    """A random model of `family` (llama, qwen2) and its tokenizer: ids 0..255 bytes, then 4 marks, the rest unused."""
    torch.manual_seed(seed)
    if family == "llama":
        model: torch.nn.Module = LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=True))
    else:
        model = Qwen2ForCausalLM(Qwen2Config(**SHAPE))
    model.save_pretrained(folder)
    save_tokenizer(folder, MARKS, TEMPLATE)
    return folder


def save_tokenizer(folder: Path, marks: list[str], template: str) -> None:
    """A tokenizer whose ids 0..255 are bytes, followed by the marks."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={letter: id_ for id_, letter in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(marks)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)


VISION_MARKS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
VISION_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_tiny_vision_model(folder: Path, hidden_size: int = 32) -> Path:
    """A random Qwen2.5-VL of 0.1M parameters, its tokenizer and its image processor; ids 0..255 bytes, then 8 marks."""
    torch.manual_seed(0)
    quarter = hidden_size // SHAPE["num_attention_heads"] // 8
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [quarter, quarter, 2 * quarter]}
    text = {**SHAPE, "hidden_size": hidden_size, "rope_parameters": rope}
    vision = {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": hidden_size,
        "fullatt_block_indexes": [0],
    }
    marks = {name: 256 + number for number, name in enumerate([*MARKS, *VISION_MARKS])}
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=marks["<|image_pad|>"],
        video_token_id=marks["<|video_pad|>"],
        vision_start_token_id=marks["<|vision_start|>"],
        vision_end_token_id=marks["<|vision_end|>"],
        eos_token_id=SHAPE["eos_token_id"],
        pad_token_id=SHAPE["pad_token_id"],
    )
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = SHAPE["eos_token_id"]
    model.save_pretrained(folder)
    save_tokenizer(folder, [*MARKS, *VISION_MARKS], VISION_TEMPLATE)
    Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16).save_pretrained(folder)
    return folder


def save_tiny_encoder(folder: Path) -> Path:
    """A random BERT of 32 dimensions that reads letters; sentence-transformers takes the mean of its tokens."""
    torch.manual_seed(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    vocab = {letters: id_ for id_, letters in enumerate(vocabulary)}
    BertTokenizerFast(vocab=vocab, model_max_length=64).save_pretrained(folder)
    return folder
