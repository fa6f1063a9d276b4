"""What a model is given for one step: history, files, system prompt, and making it fit. It calls
no provider except for summaries."""
