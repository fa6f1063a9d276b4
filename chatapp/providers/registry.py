"""Which providers there are. Each module is imported on first use: an unused SDK costs nothing.

A module offers `stream(request: ModelRequest) -> AsyncIterator[ModelEvent]`.
"""
