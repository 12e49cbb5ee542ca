"""What the model is told: the wording in text files, one folder a set, and the builders of messages.

`trained` is short, for a model whose adapter has learnt the task from these very texts; `guided`
explains the task and shows examples, for a model that has not. `baselines` holds the texts of methods that reason in
a form of their own.
"""

from r1_router.prompts.baselines import (
    documents_messages,
    follow_up_messages,
    lead_messages,
    reasoning_messages,
    round_messages,
    thought_messages,
)
from r1_router.prompts.messages import (
    answer_messages,
    cot_messages,
    direct_messages,
    final_messages,
    rag_messages,
    route_messages,
    with_reminder,
    without_last_passage,
    without_system,
)
from r1_router.prompts.sets import (
    Prompt,
    PromptSet,
    baseline_prompts,
    load_prompts,
    prompt_folder,
    prompt_set_names,
)

__all__ = [
    "Prompt",
    "PromptSet",
    "answer_messages",
    "baseline_prompts",
    "cot_messages",
    "direct_messages",
    "documents_messages",
    "final_messages",
    "follow_up_messages",
    "lead_messages",
    "load_prompts",
    "prompt_folder",
    "prompt_set_names",
    "rag_messages",
    "reasoning_messages",
    "round_messages",
    "route_messages",
    "thought_messages",
    "with_reminder",
    "without_last_passage",
    "without_system",
]
