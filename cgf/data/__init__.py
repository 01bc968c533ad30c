"""Tasks: where samples and labels come from, and how they become batches."""
