"""The hospital's side: the trusted site daemon, and the thin relay that Flower starts. Light to import."""
