"""The published question sets on a user's disk: fetched, checked, and joined with their pictures."""
