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
    Qwen2Config,
    Qwen2ForCausalLM,
)

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
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={letter: id_ for id_, letter in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(MARKS)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
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
