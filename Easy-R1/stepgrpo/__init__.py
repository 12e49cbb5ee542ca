"""Step-GRPO for EasyR1: rows with a system prompt each, and the step reward."""
