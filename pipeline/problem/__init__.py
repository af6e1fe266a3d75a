"""Open the caches of a project as domains, problems and seeds, each checked once."""
