"""Every error this package raises on purpose, in one tree.

    R1RouterError
    ├── ConfigError          a config file or flag that cannot be used
    ├── MissingDependency    an optional package that is not installed
    ├── DataError            a record or file that breaks its format
    ├── KnowledgeBaseError   a knowledge-base folder that cannot be served
    │   └── KnowledgeBaseDown    one kept elsewhere that does not answer
    ├── DownloadError        a fetch that failed, or bytes that are not the pinned ones
    ├── TrainingError        a training run that nothing would be learnt from any more
    └── EngineError          a language model that failed to reply
        └── PromptTooLong    a prompt that leaves no room in the model's context

Each message says what was wrong, what was found, and the command or flag that mends it.
"""


class R1RouterError(Exception):
    """The root: catch it to catch everything this package raises on purpose."""


class ConfigError(R1RouterError):
    """A config file or flag that cannot be used."""


class MissingDependency(R1RouterError):
    """An optional package that is not installed; the message holds the pip command."""


class DataError(R1RouterError):
    """A record or file that breaks its format; the message names file and line."""


class KnowledgeBaseError(R1RouterError):
    """A knowledge-base folder that is missing, half-written or made by other settings."""


class KnowledgeBaseDown(KnowledgeBaseError):
    """A knowledge base kept elsewhere that does not answer now; a method goes on without its evidence and counts it."""


class DownloadError(R1RouterError):
    """A fetch that failed, or bytes whose checksum is not the pinned one."""


class TrainingError(R1RouterError):
    """A training run that nothing would be learnt from any more; the message names the setting to change."""


class EngineError(R1RouterError):
    """A language model that failed to reply."""


class PromptTooLong(EngineError):
    """A prompt that leaves no room in the model's context; one with evidence is asked again with less of it."""
