"""One regression for many actions, on the features of the context, those of the action, and their crosses."""
