"""One small file per compared method: the file's name in params.yaml's `compare.methods` is all that it takes."""
