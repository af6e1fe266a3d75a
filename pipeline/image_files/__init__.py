"""The bytes of image files: single files, and images inside tar and Parquet shards, read where they lie."""
