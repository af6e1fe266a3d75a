"""From images to rows of embeddings, and who does the work: this process, a GPU or a Dask cluster."""
