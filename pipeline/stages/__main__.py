"""Run a stage: ``python -m pipeline.stages NAME KEY…``, as dvc.yaml does."""

import sys

from pipeline.stage import main

sys.exit(main())
