"""Makes the customers that the tests share importable, those of fleets too."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fleet")]
