"""Training: step rows to a LoRA adapter."""
