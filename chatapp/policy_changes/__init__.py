"""Policy as a change: drafts of edits, their effects, second approval, applying and undoing."""
