"""What several commands share."""

VERBOSE = "--verbose"
