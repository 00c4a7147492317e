"""The allow-lists, one TOML file for each family of SOP classes, in words a privacy officer can read."""
