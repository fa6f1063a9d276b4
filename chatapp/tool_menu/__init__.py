"""The Tools menu: switches, the selection of a turn, and the tools that are offered to a model."""
