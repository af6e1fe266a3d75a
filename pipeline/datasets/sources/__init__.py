"""Where the images of a domain come from: what a source finds is the same from all of them.

=================  ===========================================================================================
`folder`           ``domain/class/image``, or images of no class at any depth
`table`            CSV or Parquet with a column of paths; Parquet with a column of images, as Hugging Face writes it;
                   ``path label`` lines in text files; the ``paths`` of an .npz of imported embeddings, without images
`tar_shards`       tar files, as WebDataset writes them or made from class folders
=================  ===========================================================================================

`choose.find_in` finds out which it is. Bytes are read by path alone (`pipeline.image_files.read`).
"""
