"""The one place where a config becomes concrete: engines, encoders, knowledge bases, methods, questions."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.bases import KnowledgeBases, OnBuild, model_path, quieten_transformers
from r1_router.config import Config
from r1_router.errors import ConfigError, DataError
from r1_router.files import sha256_of
from r1_router.idle import Idle
from r1_router.methods import OnEvent, Settings, make_method
from r1_router.prompts import PromptSet, baseline_prompts, load_prompts, prompt_set_names
from r1_router.questions import find_questions, read_questions, require_pictures
from r1_router.results import is_through
from r1_router.types import LLM, Method, Question, Retriever, Source

if TYPE_CHECKING:
    from r1_router.retrieval.vectors import PassageEncoder


class Deployment:
    """A config's engines and knowledge bases, each loaded when first asked for and then kept."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._llms: dict[Path | None, LLM] = {}
        self._bases = KnowledgeBases(config)

    def method(self, name: str, on_event: OnEvent | None = None) -> Method:
        """The method or variant `name`, working as the config says."""
        return make_method(self.config.variant(name).method, self.settings(name, on_event))

    def settings(self, name: str, on_event: OnEvent | None = None) -> Settings:
        """How the method or variant `name` works."""
        config, variant = self.config, self.config.variant(name)
        return Settings(
            prompts=self.prompt_set(variant.prompts),
            sampling=config.sampling,
            retrieved=config.retrieved,
            shown=config.shown,
            max_steps=config.max_steps,
            lower_case=variant.lower_case,
            constrained=config.llm.constrained,
            forget_on_stop=config.forget_on_stop,
            on_event=on_event,
        )

    def prompt_set(self, name: str) -> PromptSet:
        """A set of the package, or the one in a folder under the root."""
        return load_prompts(name if name in prompt_set_names() else str(self.config.root / name))

    def llm(self, name: str) -> LLM:
        """The language model with the adapter that the method or variant `name` uses."""
        adapter = self.config.variant(name).adapter
        if adapter not in self._llms:
            adapter_digest(adapter)  # a missing one is found before a model is loaded
            self._llms[adapter] = self._load_llm(adapter)
        return self._llms[adapter]

    def knowledge_bases(self) -> dict[Source, Retriever]:
        """Every source's knowledge base, loaded; raises KnowledgeBaseError for one that is not built."""
        return self._bases.load()

    def for_run(self, name: str, questions: Sequence[Question], path: Path) -> tuple[LLM, Mapping[Source, Retriever]]:
        """The model and the bases that a run into `path` asks: idle ones where it has an answer to every question."""
        if is_through(path, questions, self.sources()):
            return Idle(), dict.fromkeys(self.sources(), Idle())
        bases = self.knowledge_bases()  # one that is not built is found before a model is loaded
        return self.llm(name), bases

    def text_encoder(self) -> tuple[PassageEncoder, str]:
        """What step rewards compare sub-questions with, and a name for what it is."""
        return self._bases.text_encoder()

    def build(self, on_build: OnBuild = lambda name, done, total: None) -> dict[str, int]:
        """Build the knowledge bases that are not there yet; gives the number of passages in each."""
        return self._bases.build(on_build)

    def sources(self) -> tuple[Source, ...]:
        """The configured sources, in their order."""
        return self._bases.sources()

    def sources_digest(self) -> dict[str, Any]:
        """What each knowledge base was made from and how it is searched, as plain values."""
        return self._bases.digest()

    def questions(self, benchmark: str, limit: int | None = None, sample_seed: int | None = None) -> list[Question]:
        """The first `limit` questions, or that many drawn by a seed; image paths are made findable.

        `benchmark` is a name of the config, a published set that was fetched, or the path of a question file.
        """
        file = find_questions(benchmark, self.config.benchmarks, self.config.root)
        rows = read_questions(file)
        if sample_seed is not None and limit is not None and limit < len(rows):
            chosen = sorted(random.Random(sample_seed).sample(range(len(rows)), limit))
            rows = [rows[index] for index in chosen]
        questions = [replace(row, image=row.image and image_path(file.pictures, row.image)) for row in rows[:limit]]
        require_pictures(file, questions)
        return questions

    def fingerprint(self, name: str) -> dict[str, Any]:
        """What the answers of a method depend on, by the config's keys: results made by others are not resumed."""
        config, variant = self.config, self.config.variant(name)
        prompts = self.prompt_set(variant.prompts)
        return {
            **{
                f"llm.{key}": getattr(config.llm, key) for key in ("engine", "model", "dtype", "constrained", "context")
            },
            **{f"sampling.{key}": value for key, value in asdict(config.sampling).items()},
            **{key: getattr(config, key) for key in ("retrieved", "shown", "max_steps")},
            **({"forget_on_stop": True} if config.forget_on_stop else {}),
            "method": variant.method,
            "lower_case": variant.lower_case,
            "adapter": adapter_digest(variant.adapter),
            "prompts": hashlib.sha256(repr((prompts, *baseline_prompts(variant.method))).encode()).hexdigest()[:16],
            "sources": self.sources_digest(),
        }

    def _load_llm(self, adapter: Path | None) -> LLM:
        section = self.config.llm
        if section.engine == "openai":
            from r1_router.llm.openai import OpenAILLM

            return OpenAILLM(section.base_url, section.model, api_key_env=section.api_key_env)
        if section.engine == "vllm":
            return self._start_vllm(adapter)
        from r1_router.llm.transformers import TransformersLLM
        from r1_router.llm.vision import VisionLLM, sees_images

        quieten_transformers()
        model = model_path(self.config, section.model)
        engine = VisionLLM if sees_images(model) else TransformersLLM
        return engine(
            model,
            adapter=adapter,
            dtype=section.dtype,
            batch=section.batch,
            threads=section.threads,
            context=section.context,
        )

    def _start_vllm(self, adapter: Path | None) -> LLM:
        from r1_router.llm.vllm import VllmLLM

        section = self.config.llm
        return VllmLLM(
            model_path(self.config, section.model),
            adapter=adapter,
            dtype=section.dtype,
            context=section.context,
            servers=section.servers,
            server_args=section.server_args,
            logs=self.config.results_dir / section.name / "servers",
        )


def adapter_digest(adapter: Path | None) -> str | None:
    """16 hex digits of an adapter's weights; None for none. Raises ConfigError where the folder holds no adapter."""
    if adapter is None:
        return None
    weights = adapter / "adapter_model.safetensors"
    if not weights.is_file():
        raise ConfigError(f"adapter: no {weights.name} in {adapter}; `r1-router train sft` makes one.")
    return sha256_of(weights)[:16]


def image_path(folder: Path, image: str) -> str:
    """The image's path, checked to stay inside the benchmark's folder; relative to where the command runs, if below."""
    path = (folder / image).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise DataError(f"the image {image!r} of a question lies outside {folder}.")
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
