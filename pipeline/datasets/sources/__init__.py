"""Where the images of a domain come from: what a source finds is the same from all of them.

`folder`, `table` and `tar_shards` read what docs/how-to/image-sources.md lists; `choose.find_in` finds out which it is.
Bytes are read by path alone (`pipeline.image_files.read`).
"""
