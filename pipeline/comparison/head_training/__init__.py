"""What the head-only baselines share: one small head over frozen embeddings and one training loop.

The paper trains these baselines end to end; here the backbone is frozen and its cached embeddings are the input, so
that a method costs seconds and every row of a table has seen the same features. torch is imported inside functions:
a stage that compares no head does not load it.
"""
