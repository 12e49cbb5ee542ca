"""Step-GRPO on one machine: step rows, sampled replies, step rewards, and TRL's optimisation of the policy."""
