"""The caches of a project as objects: domains, problems and their seeds, opened and checked once for everybody."""
