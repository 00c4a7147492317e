"""The local gRPC contract between a site's daemon and its callers; light enough for the relay to import."""
