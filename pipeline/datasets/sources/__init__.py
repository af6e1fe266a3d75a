"""Find the images of a domain in folders, tables and tar shards, which all return `FoundImages`.

`choose.find_in` selects the reader for each layout in docs/how-to/image-sources.md. The images' bytes are read by path
(`pipeline.image_files.read`).
"""
