"""What the user sees: messages at the end of a run, states and rows in the tables."""
