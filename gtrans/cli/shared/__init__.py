"""What several commands share, and the options of ``gtrans score``."""

VERBOSE = "--verbose"
