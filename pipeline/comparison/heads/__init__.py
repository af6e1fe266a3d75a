"""Train nine baselines as small heads on frozen embeddings, by gradients; `methods/head.py` lists them by name.

The paper trains them end to end. Here the input is the cached embeddings of a frozen backbone, so that a method takes
seconds and all rows of a table use the same features. Torch is loaded only when a head is compared.
"""
