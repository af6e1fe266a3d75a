"""Extract embeddings from images and run heavy work in this process, on a GPU or on a Dask cluster."""
