"""`python -m penstock.proof KIND`: see `penstock.proof.frame` for what all kinds share."""

from __future__ import annotations

import sys

from penstock.proof.frame import main
from penstock.proof.kinds import KINDS

if __name__ == "__main__":
    sys.exit(main(KINDS))
