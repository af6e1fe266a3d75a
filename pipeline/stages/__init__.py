"""One thin command line per DVC stage; only these read params.yaml."""
