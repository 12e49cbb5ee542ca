"""OpenAI's layout of a CLIP, which UniIR and open-clip keep, brought to that of the transformers library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from r1_router.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

SINGLE = {
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",  # spelt so in the library
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
}
TURNED = {"text_projection": "text_projection.weight", "visual.proj": "visual_projection.weight"}
"""Matrices that OpenAI multiplies from the right and the library from the left."""
STACKS = {
    "transformer.resblocks.": "text_model.encoder.layers.",
    "visual.transformer.resblocks.": "vision_model.encoder.layers.",
}
IN_BLOCK = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
JOINED = "attn.in_proj_"
"""Query, key and value in one matrix, in this order; the library has one each."""
OPEN_CLIP_TEXT = {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12, "mlp_ratio": 4.0}
OPEN_CLIP_VISION = {
    "image_size": 224,
    "patch_size": 16,
    "width": 768,
    "head_width": 64,
    "layers": 12,
    "mlp_ratio": 4.0,
}
"""What open-clip's model files may say of a plain CLIP, with the values that it takes where they are silent."""


def to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights under the names of transformers' CLIPModel; a name that is not OpenAI's stays as it is."""
    renamed: dict[str, Tensor] = {}
    for key, value in state.items():
        stack = next((stack for stack in STACKS if key.startswith(stack)), None)
        if stack is not None:
            number, _, rest = key.removeprefix(stack).partition(".")
            renamed |= _of_block(f"{STACKS[stack]}{number}.", rest, value)
        elif key in TURNED:
            renamed[TURNED[key]] = value.T.contiguous()
        else:
            renamed[SINGLE.get(key, key)] = value
    return renamed


def _of_block(prefix: str, name: str, value: Tensor) -> dict[str, Tensor]:
    """One weight of a transformer block: renamed, or cut in three."""
    if name.startswith(JOINED):
        kind = name.removeprefix(JOINED)
        parts = zip("qkv", value.chunk(3), strict=True)
        return {f"{prefix}self_attn.{letter}_proj.{kind}": part.contiguous() for letter, part in parts}
    part, _, kind = name.rpartition(".")
    return {f"{prefix}{IN_BLOCK.get(part, part)}.{kind}": value}


def open_clip_config(model: Mapping[str, Any], where: str) -> Any:
    """The CLIPConfig of open-clip's `model_cfg`; raises ConfigError for what is no plain CLIP, such as a ResNet."""
    from transformers import CLIPConfig

    text, vision = dict(model.get("text_cfg", {})), dict(model.get("vision_cfg", {}))
    strange = [
        key for given, known in ((text, OPEN_CLIP_TEXT), (vision, OPEN_CLIP_VISION)) for key in given.keys() - known
    ]
    strange += sorted(model.keys() - {"embed_dim", "quick_gelu", "text_cfg", "vision_cfg"})
    text, vision = OPEN_CLIP_TEXT | text, OPEN_CLIP_VISION | vision
    if strange or not isinstance(vision["layers"], int):
        raise ConfigError(f"{where}: not a plain CLIP with a vision transformer ({', '.join(strange) or 'a ResNet'}).")
    shared = {
        "projection_dim": model["embed_dim"],
        "hidden_act": "quick_gelu" if model.get("quick_gelu") else "gelu",
    }
    return CLIPConfig(
        projection_dim=model["embed_dim"],
        text_config=shared
        | {
            "vocab_size": text["vocab_size"],
            "hidden_size": text["width"],
            "intermediate_size": int(text["width"] * text["mlp_ratio"]),
            "num_hidden_layers": text["layers"],
            "num_attention_heads": text["heads"],
            "max_position_embeddings": text["context_length"],
            "bos_token_id": text["vocab_size"] - 2,
            "eos_token_id": text["vocab_size"] - 1,  # its vector is the text's
        },
        vision_config=shared
        | {
            "image_size": vision["image_size"],
            "patch_size": vision["patch_size"],
            "hidden_size": vision["width"],
            "intermediate_size": int(vision["width"] * vision["mlp_ratio"]),
            "num_hidden_layers": vision["layers"],
            "num_attention_heads": vision["width"] // vision["head_width"],
        },
    )
