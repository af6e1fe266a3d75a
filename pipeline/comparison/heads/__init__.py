"""Nine baselines that train a small head over frozen embeddings by gradients; their table is `methods/head.py`.

The paper trains them end to end. Here the backbone is frozen and its cached embeddings are the input: a method takes
seconds, and every row of a table rests on the same features. Torch is loaded only when a head is compared.
"""
