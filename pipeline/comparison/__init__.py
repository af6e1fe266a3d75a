"""Every method on the same cached features: what one may see, how it is found by name, how it is scored."""
