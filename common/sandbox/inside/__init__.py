"""The trusted half that lives inside the sandbox: fork server, confinement and language front ends.

This package is copied next to the warm toolkit and runs there alone, so it imports the standard library and itself
(relatively) and nothing else of the project.
"""
