"""The method as pure mathematics on arrays: no files, no parameters, no models."""
