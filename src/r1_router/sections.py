"""The sections of a YAML file: one dataclass each, every key with its default."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """The language model; `name` stands in result paths, `model` is a folder or a hub or server name.

    `dtype`, `batch`, `threads` are the transformers engine's, `base_url`, one or several, and `api_key_env` the openai
    engine's, `servers` and `server_args` the vllm engine's. `constrained` holds replies to their form, where the engine
    is a vLLM server.
    """

    name: str
    model: str
    engine: str = "transformers"
    adapter: Path | None = None
    dtype: str = "float32"
    batch: int = 32
    threads: int | None = None
    context: int | None = None
    base_url: tuple[str, ...] = ()
    api_key_env: str | None = None
    servers: int = 1
    server_args: tuple[str, ...] = ()
    constrained: bool = False


@dataclass(frozen=True, slots=True)
class ClipConfig:
    """Which parts are looked at, "image,text", "text" or "image", of queries and of the candidates sought.

    `instructions` is M-BEIR's table of them, of which the rows of `dataset` count (6: InfoSeek).
    """

    query: str = "image,text"
    candidate: str = "text"
    instructions: Path | None = None
    dataset: int = 6


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """`kind` sentence: a sentence-transformers model; fused: its vectors beside those of the image model's folder.

    clip: pictures and texts in one space; table: a bi-encoder. `base` has the configuration and tokenizer of a released
    checkpoint that is weights alone; by default what it was tuned from. `query_prompt` is put before each query, CLIP's
    instruction too. `devices`: one copy each, a share of the items each; by default the GPU where there is one.
    """

    kind: str
    model: str
    max_tokens: int = 256
    image_model: Path | None = None
    image_weight: float = 0.7
    base: str | None = None
    clip: ClipConfig = field(default_factory=ClipConfig)
    pooling: str | None = None
    query_prompt: str | None = None
    passage_prompt: str | None = None
    batch: int = 32
    dtype: str = "float32"
    devices: tuple[str, ...] = ()


NOWHERE = Path()
"""The value of a path that is not given."""


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """A Milvus collection: `milvus` is a cluster's URI, or the path of a `.db` file for the embedded Lite form.

    `index` is a kind of index that Milvus knows, FLAT is exact; `token_env` names the variable with the access token.
    """

    milvus: str
    collection: str
    index: str = "FLAT"
    token_env: str | None = None


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One knowledge base: what the model knows it by, what it is built from, where it is kept, how it is searched.

    It is kept in `folder`, or elsewhere: in a `store`, or with `url` behind a server that has its passages and encoder.

    Images are taken from `image_root`; by default from the folder above that of `passages`. `fusion` weights: vectors
    and BM25 by `lexical_weight`; rrf: by the places that a passage has in each. `reranker` is a cross-encoder that
    reads the first `rerank_depth`. With a `language` such as english BM25 counts stems and passes over stop words.

    `index` is FAISS's factory string, in files of `shard_rows` (null: by size), `search` what it lets one set later, as
    nprobe=64. `mmap` leaves it on the disk, `gpu` spreads it over the GPUs. `vectors` is a folder that keeps what is
    indexed, as `dtype`.
    """

    name: str
    tag: str
    purpose: str
    passages: Path = NOWHERE
    folder: Path = NOWHERE
    encoder: str = ""
    lexical_weight: float = 0.0
    image_root: Path | None = None
    fusion: str = "weights"
    language: str | None = None
    reranker: str | None = None
    rerank_depth: int = 50
    index: str = "Flat"
    shard_rows: int | None = None
    search: str = ""
    mmap: bool = False
    gpu: bool = False
    dtype: str = "float32"
    vectors: Path | None = None
    url: str | None = None
    store: StoreConfig | None = None


@dataclass(frozen=True, slots=True)
class VariantConfig:
    """A method under a name of its own, with another adapter (null: none) or prompt set than the config's."""

    method: str
    prompts: str
    adapter: Path | None = None
    lower_case: bool = False


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """One adapter to train: step rows of `kind` made from `questions`, then tuned as `sft` says (SftConfig's keys).

    The kinds router and rag make their rows of the Factbook's `questions`; steps takes rows that are there, as
    `r1-router synthesize` writes them.
    An adapter of the kind grpo has `grpo` instead (GrpoConfig's keys), which names the rows it takes. The kind
    retriever trains no adapter but a base's encoder, on the gold hops of `questions`, as `retriever` says
    (RetrieverConfig's keys).
    """

    kind: str
    questions: Path | None = None
    sft: dict[str, Any] = field(default_factory=dict)
    grpo: dict[str, Any] = field(default_factory=dict)
    retriever: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SynthesisSet:
    """Questions for a teacher: a benchmark's name or a file; `config` names another deployment, with its teacher.

    With `generate` that many questions are tried for from what the knowledge bases hold, and no `questions` are given.
    With `gold` the questions' own gold hops are taken for the trajectories, and no teacher is asked for them. With
    `thought_opened` the teacher's replies start inside a thought, since its chat template opens one.
    """

    questions: str = ""
    config: Path | None = None
    prompts: str = "guided"
    limit: int | None = None
    gold: bool = False
    generate: int | None = None
    thought_opened: bool = False


@dataclass(frozen=True, slots=True)
class SynthesisConfig:
    """Step data: which sets, what is kept of each (`most` trajectories), and where the files go.

    `prompts` is the set that the rows are written in, the one that the trained model will be asked in. `images` says
    what becomes of pictures: refer (the rows name them where they are), copy, or link (into `images/` beside the rows).
    `tokenizer` is the folder of the trained model's, to count lengths by; by default the language model's own.
    """

    out: Path
    sets: dict[str, SynthesisSet]
    prompts: str = "trained"
    filters: tuple[str, ...] = ("recall", "single")
    most: int = 1000
    validation_share: float = 0.2
    seed: int = 0
    images: str = "refer"
    tokenizer: Path | None = None
