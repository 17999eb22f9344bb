"""The options of this project, explained from where they are defined."""
