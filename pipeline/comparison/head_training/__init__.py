"""What the nine head-only baselines share: a small head over frozen embeddings and one training loop.

The paper trains these baselines end to end. Here the backbone is frozen and its cached embeddings are the input: a
method takes seconds, and every row of a table rests on the same features. The registry imports a head's file only when
it is compared, so that torch is not loaded for tables without heads.
"""
