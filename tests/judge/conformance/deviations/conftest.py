"""Makes the package `deviating`, which lies beside the tests, importable; scripts here find it anyway."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
