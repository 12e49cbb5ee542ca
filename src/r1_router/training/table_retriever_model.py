"""The models that a table retriever can be: one sentence-transformers model, or two towers that start as one BERT."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from r1_router.retrieval.bi_encoder import BiEncoder, Tower

SIDES = ("query", "document")
INSTALL = 'pip install "sentence-transformers[train]"'


def sentence_model(model: str, max_tokens: int) -> SentenceTransformer:
    """One model for questions and passages, which are cut at `max_tokens`; raises ConfigError where there is none."""
    from sentence_transformers import SentenceTransformer

    loaded = _loaded(lambda: SentenceTransformer(model, trust_remote_code=False), model)
    loaded.max_seq_length = min(max_tokens, loaded.max_seq_length or max_tokens)
    return loaded


def two_towers(base: str, *, pooling: str, question_tokens: int, max_tokens: int) -> SentenceTransformer:
    """A tower for questions and one for tables, both starting as `base`; the table's knows the table tokens.

    With pooling "pooler" the vectors are BERT's pooler outputs: a dense layer over the first token that starts as the
    pooler; with "mean" they are the tokens' mean, made unit. Seed torch first: the new tokens' rows are drawn.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router

    from r1_router.retrieval.bi_encoder import TABLE_TOKENS

    question, table = (_tower(base, pooling, length) for length in (question_tokens, max_tokens))
    table[0].tokenizer.add_tokens(list(TABLE_TOKENS))
    table[0].auto_model.resize_token_embeddings(len(table[0].tokenizer), mean_resizing=False)
    router = Router.for_query_document(question, table)
    return SentenceTransformer(modules=[router], similarity_fn_name="dot")


def bi_encoder_of(model: SentenceTransformer) -> BiEncoder:
    """The trained towers as the bi-encoder that is saved and served."""
    from r1_router.retrieval.bi_encoder import BiEncoder

    return BiEncoder(*(_plain_tower(*model[0].sub_modules[side]) for side in SIDES))


def _tower(base: str, pooling: str, length: int) -> list[Any]:
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    transformer = _loaded(lambda: Transformer(base, max_seq_length=length), base)
    width = transformer.get_embedding_dimension()
    if pooling == "mean":
        return [transformer, Pooling(width, "mean"), Normalize()]
    start = transformer.auto_model.pooler.dense
    dense = Dense(width, width, init_weight=start.weight.detach().clone(), init_bias=start.bias.detach().clone())
    return [transformer, Pooling(width, "cls"), dense]


def _plain_tower(transformer: Any, pooling: Any, last: Any) -> Tower:
    from r1_router.retrieval.bi_encoder import Tower

    transformer.tokenizer.model_max_length = transformer.max_seq_length
    if pooling.pooling_mode == "mean":
        return Tower(transformer.auto_model, transformer.tokenizer, "mean", unit=True)
    transformer.auto_model.pooler.dense.load_state_dict(last.linear.state_dict())
    return Tower(transformer.auto_model, transformer.tokenizer)


def require_trainer() -> None:
    """Raise MissingDependency where sentence-transformers or what its trainer needs is not installed."""
    try:
        import accelerate  # noqa: F401
        import datasets  # noqa: F401
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise MissingDependency(f"Training a retriever needs {error.name}: {INSTALL}") from error


def _loaded(load: Any, model: str | Path) -> Any:
    try:
        return load()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"No model to start from at {str(model)!r} ({error}). Give a folder that holds one, or a hub name while "
            "the hub can be reached, as `model` in the config's `retriever` section."
        ) from error
