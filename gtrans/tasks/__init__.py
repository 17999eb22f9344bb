"""fairseq tasks. Importing this package only registers all names of the plugin."""

# fairseq imports the tasks and models of --user-dir, and nothing else.
import gtrans.criterions.chunked_cross_entropy  # noqa: F401
from gtrans.checkpoints.reading import register_safe_globals

register_safe_globals()
