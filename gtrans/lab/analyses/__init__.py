"""The parts of ``gtrans analyse``, one module each."""
