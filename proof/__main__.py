"""`python -m proof KIND`: see `proof.frame` for what all kinds share."""

from __future__ import annotations

import sys

from proof.frame import main
from proof.kinds import KINDS

if __name__ == "__main__":
    sys.exit(main(KINDS))
