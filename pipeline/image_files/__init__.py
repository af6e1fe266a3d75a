"""Read the bytes of image files, and of images inside tar and Parquet shards without unpacking them."""
