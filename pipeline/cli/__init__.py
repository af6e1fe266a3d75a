"""The command `referee`: prepare a project, inspect its results and use the adapted model. `dvc repro` runs it."""
