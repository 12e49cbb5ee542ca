"""A CLIP in OpenAI's layout, written from the paper and its names: what converted weights are held against."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.?!',"
VOCABULARY = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
TINY = {"embed": 24, "size": 32, "patch": 8, "image_width": 64, "image_layers": 2, "text_width": 64, "text_layers": 2}
LARGE = {
    "embed": 768,
    "size": 224,
    "patch": 14,
    "image_width": 1024,
    "image_layers": 24,
    "text_width": 768,
    "text_layers": 12,
    "vocabulary": 49408,
}


class QuickGelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class Block(nn.Module):
    def __init__(self, width: int, gelu: type[nn.Module]) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(width, width // 64, batch_first=True)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(width, 4 * width))
        self.mlp.add_module("gelu", gelu())
        self.mlp.add_module("c_proj", nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        seen = self.ln_1(x)
        x = x + self.attn(seen, seen, seen, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, width: int, layers: int, gelu: type[nn.Module]) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList([Block(width, gelu) for _ in range(layers)])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for block in self.resblocks:
            x = block(x, mask)
        return x


class Visual(nn.Module):
    def __init__(self, shape: dict[str, int], gelu: type[nn.Module]) -> None:
        super().__init__()
        width, patches = shape["image_width"], (shape["size"] // shape["patch"]) ** 2
        self.conv1 = nn.Conv2d(3, width, shape["patch"], stride=shape["patch"], bias=False)
        self.class_embedding = nn.Parameter(torch.randn(width))
        self.positional_embedding = nn.Parameter(torch.randn(patches + 1, width))
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.transformer = Transformer(width, shape["image_layers"], gelu)
        self.proj = nn.Parameter(torch.randn(width, shape["embed"]) * width**-0.5)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.conv1(pixels).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(len(pixels), 1, -1)
        x = self.ln_pre(torch.cat([first, patches], dim=1) + self.positional_embedding)
        return self.ln_post(self.transformer(x)[:, 0]) @ self.proj


class OpenAIClip(nn.Module):
    def __init__(self, shape: dict[str, int], gelu: type[nn.Module] = QuickGelu) -> None:
        super().__init__()
        width, vocabulary = shape["text_width"], shape.get("vocabulary", len(VOCABULARY))
        self.visual = Visual(shape, gelu)
        self.transformer = Transformer(width, shape["text_layers"], gelu)
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.positional_embedding = nn.Parameter(torch.randn(77, width))
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, shape["embed"]) * width**-0.5)
        self.logit_scale = nn.Parameter(torch.tensor(2.6592))

    def encode_image(self, pixels: Tensor) -> Tensor:
        return self.visual(pixels)

    def encode_text(self, ids: Tensor) -> Tensor:
        """The vector at the highest id, which ends the text; ids are padded with 0, as OpenAI's tokenizer does."""
        x = self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]]
        future = torch.full((ids.shape[1], ids.shape[1]), float("-inf")).triu(1)
        x = self.ln_final(self.transformer(x, future))
        return x[torch.arange(len(ids)), ids.argmax(dim=1)] @ self.text_projection


def tiny_clip(gelu: type[nn.Module] = QuickGelu) -> OpenAIClip:
    torch.manual_seed(0)
    return OpenAIClip(TINY, gelu).eval()


def transformers_config(shape: dict[str, int]) -> CLIPConfig:
    """The library's configuration of a CLIP of that shape."""
    vocabulary = shape.get("vocabulary", len(VOCABULARY))
    sides: dict[str, dict[str, Any]] = {
        side: {
            "hidden_size": shape[f"{side}_width"],
            "intermediate_size": 4 * shape[f"{side}_width"],
            "num_hidden_layers": shape[f"{side}_layers"],
            "num_attention_heads": shape[f"{side}_width"] // 64,
            "projection_dim": shape["embed"],
        }
        for side in ("image", "text")
    }
    ends = {"vocab_size": vocabulary, "bos_token_id": vocabulary - 2, "eos_token_id": vocabulary - 1}
    vision = sides["image"] | {"image_size": shape["size"], "patch_size": shape["patch"]}
    return CLIPConfig(projection_dim=shape["embed"], text_config=sides["text"] | ends, vision_config=vision)


def save_base(folder: Path) -> Path:
    """What weights alone lack: the tiny CLIP's configuration and a tokenizer that spells."""
    transformers_config(TINY).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_tokenizer(folder: Path) -> None:
    vocabulary = {token: number for number, token in enumerate(VOCABULARY)}
    CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77).save_pretrained(folder)


def ids_of(text: str) -> Tensor:
    """A text's ids as OpenAI's tokenizer would have them for this vocabulary: 77 of them, zeros behind."""
    words = re.findall("[a-z]+|[0-9]|[^ a-z0-9]+", text.lower())
    spelt = [VOCABULARY.index(part) for word in words for part in (*word[:-1], f"{word[-1]}</w>")]
    ids = [*[VOCABULARY.index("<|startoftext|>"), *spelt][:76], VOCABULARY.index("<|endoftext|>")]
    return torch.tensor([ids + [0] * (77 - len(ids))])
