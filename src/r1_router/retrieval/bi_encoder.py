"""The table retriever's model: a BERT for questions and another for tables, compared by inner product.

Two layouts on disk. The released one (Open-WikiTable's) is a training state of the `accelerate` library: one weights
file whose keys begin with `question_enc.` and `table_enc.`, no configuration, no tokenizer; `load_released` reads that
file alone, never the optimizer beside it. Ours is two plain transformers folders, `question` and `table`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.errors import ConfigError
from r1_router.files import write_atomically
from r1_router.retrieval.state_dicts import read_state, require_layout, weights_in

if TYPE_CHECKING:
    from torch import Tensor

TABLE_TOKENS = ("[Title]", "[Section title]", "[Caption]", "[Table name]", "[Header]", "[Rows]", "[Row]", "[sep]")
"""What marks the parts of a linearised table; known to the table tower's tokenizer only."""
QUESTION_LENGTH = 64
TABLE_LENGTH = 512
SIDES = ("question", "table")
SETTINGS = "bi_encoder.json"
RELEASED_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True, slots=True, eq=False)
class Tower:
    """One BERT and its tokenizer, which cuts texts at its `model_max_length` tokens.

    `pooling` "pooler": BERT's own pooler, the published way; "mean": the mean of the tokens. `unit`: made length 1.
    """

    model: Any
    tokenizer: Any
    pooling: str = "pooler"
    unit: bool = False

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """The texts' vectors, shape (len(texts), width), on the model's device; gradients flow where they are on."""
        from torch.nn.functional import normalize

        tokens = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt").to(self.model.device)
        output = self.model(**tokens)
        if self.pooling == "pooler":
            vectors = output.pooler_output
        else:
            seen = tokens["attention_mask"].unsqueeze(-1).to(output.last_hidden_state.dtype)
            vectors = (output.last_hidden_state * seen).sum(1) / seen.sum(1)
        return normalize(vectors, dim=-1) if self.unit else vectors


@dataclass(frozen=True, slots=True, eq=False)
class BiEncoder:
    """Both towers; a question's score for a table is the inner product of their vectors."""

    question: Tower
    table: Tower

    def modules(self) -> Any:
        """The two models as one torch module, its parameters named as in the released file; for optimizers."""
        from torch.nn import ModuleDict

        return ModuleDict({"question_enc": self.question.model, "table_enc": self.table.model})

    def save(self, folder: Path) -> None:
        """Write each tower as safetensors, config and tokenizer; `SETTINGS` comes last and says the rest is whole."""
        for side, tower in zip(SIDES, (self.question, self.table), strict=True):
            tower.model.save_pretrained(folder / side)
            tower.tokenizer.save_pretrained(folder / side)
        settings = {"pooling": self.question.pooling, "unit": self.question.unit}
        write_atomically(folder / SETTINGS, json.dumps(settings) + "\n")


def new_bi_encoder(base: str | Path, *, pooling: str = "pooler", unit: bool = False) -> BiEncoder:
    """Two towers that both start as the BERT `base`, a folder or a hub name; the table's has rows for its new tokens.

    Those rows are drawn at random: seed torch first.
    """
    from transformers import AutoModel

    question, table = _tokenizers(base)
    models = [_pretrained(AutoModel, base) for _ in SIDES]
    models[1].resize_token_embeddings(len(table), mean_resizing=False)
    return BiEncoder(Tower(models[0], question, pooling, unit), Tower(models[1], table, pooling, unit))


def load_bi_encoder(folder: Path, base: str | Path) -> BiEncoder:
    """The model in `folder`, in our layout or the released one, in evaluation mode and 32 bits.

    `base` is where the released layout's configuration and tokenizer are from: a folder or a hub name. Raises
    ConfigError where the folder holds neither layout, or weights that are not this model's.
    """
    if not (folder / SETTINGS).is_file():
        return load_released(weights_in(folder, RELEASED_WEIGHTS), base)
    from transformers import AutoModel, AutoTokenizer

    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        pooling, unit = str(settings["pooling"]), bool(settings["unit"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder / SETTINGS} does not say how vectors are pooled ({error!r}). Train again."
        ) from error
    towers = [
        Tower(_pretrained(AutoModel, folder / side).float(), _pretrained(AutoTokenizer, folder / side), pooling, unit)
        for side in SIDES
    ]
    return BiEncoder(*towers)


def load_released(weights: Path, base: str | Path) -> BiEncoder:
    """The two towers in a weights file of the released layout, shaped as the BERT `base` is.

    Raises ConfigError, naming the keys, where the file is another model's or lacks some.
    """
    empty = shapes_of(base)
    # Older versions of transformers kept the numbers 0 to 511 among the weights.
    state = {key: value for key, value in read_state(weights).items() if not key.endswith(".position_ids")}
    require_layout(state, empty.modules().state_dict(), weights)
    return BiEncoder(_filled(empty.question, state, "question_enc."), _filled(empty.table, state, "table_enc."))


def shapes_of(base: str | Path) -> BiEncoder:
    """Two towers shaped as the BERT `base` is, with the tokenizers, and without memory for their weights."""
    import torch
    from transformers import AutoConfig, AutoModel

    tokenizers = _tokenizers(base)
    configs = [_pretrained(AutoConfig, base, vocab_size=len(tokenizer)) for tokenizer in tokenizers]
    with torch.device("meta"):
        models = [AutoModel.from_config(config) for config in configs]
    return BiEncoder(*map(Tower, models, tokenizers))


def _filled(tower: Tower, state: dict[str, Any], prefix: str) -> Tower:
    part = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    model = type(tower.model).from_pretrained(None, config=tower.model.config, state_dict=part)
    return replace(tower, model=model.float().eval())


def _tokenizers(base: str | Path) -> list[Any]:
    """The question's and the table's tokenizer, each cutting at its published length."""
    from transformers import AutoConfig, AutoTokenizer

    most = _pretrained(AutoConfig, base).max_position_embeddings
    lengths = (min(length, most) for length in (QUESTION_LENGTH, TABLE_LENGTH))
    question, table = (_pretrained(AutoTokenizer, base, model_max_length=length) for length in lengths)
    table.add_tokens(list(TABLE_TOKENS))
    return [question, table]


def _pretrained(kind: Any, model: str | Path, **options: Any) -> Any:
    """`from_pretrained` of a transformers class, its failures as a ConfigError."""
    try:
        return kind.from_pretrained(str(model), **options)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"No BERT at {str(model)!r} ({error}). Give a folder that holds one, or a hub name while the hub can be "
            "reached; the released table retriever needs bert-large-uncased as the encoder's `base` in the config."
        ) from error
