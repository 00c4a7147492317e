"""The Stage Bank: resettable training states made from a site's own images, and the toolkit they are solved with."""
