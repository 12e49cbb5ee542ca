"""What the model is told: the wording in text files, one folder a set, and the builders of messages.

`trained` is short, for a model whose adapter has learnt the task from these very texts; `guided`
explains the task and shows examples, for a model that has not.
"""

from r1_router.prompts.messages import (
    answer_messages,
    cot_messages,
    direct_messages,
    final_messages,
    rag_messages,
    route_messages,
    with_reminder,
    without_system,
)
from r1_router.prompts.sets import Prompt, PromptSet, load_prompts, prompt_set_names

__all__ = [
    "Prompt",
    "PromptSet",
    "answer_messages",
    "cot_messages",
    "direct_messages",
    "final_messages",
    "load_prompts",
    "prompt_set_names",
    "rag_messages",
    "route_messages",
    "with_reminder",
    "without_system",
]
