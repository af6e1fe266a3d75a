"""The command `referee`: what prepares the pipeline and looks at it; `dvc repro` runs it."""
