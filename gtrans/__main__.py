"""``python -m gtrans`` is the ``gtrans`` command."""

import sys

from gtrans.cli import main

if __name__ == "__main__":
    sys.exit(main())
