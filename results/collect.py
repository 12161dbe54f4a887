"""Add what svrl paper run computed to the committed tables: python results/collect.py STORE [TABLES]."""

from __future__ import annotations

import sys
from pathlib import Path

from svrl.paper.table import Table
from svrl.runs.store import Store

if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python results/collect.py STORE [TABLES], where STORE is a folder such as runs/store")
    tables = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).parent / "paper"
    count = Table(tables).add(Store(root=Path(sys.argv[1])))
    print(f"{count} new runs in {tables}. svrl paper check says what became of the claims.")
