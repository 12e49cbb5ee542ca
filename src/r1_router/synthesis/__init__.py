"""Step data for training: teacher trajectories, filtered, and cut into steps."""
