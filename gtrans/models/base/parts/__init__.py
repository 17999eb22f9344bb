"""Parts that a system switches on in the stacks of the base; what is off costs nothing."""
