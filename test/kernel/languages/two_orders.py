"""Writes for two orders, and once for neither."""
import sys
from pathlib import Path

out = open(sys.argv[1], 'ab', buffering=0)


def work(order, text):
    Path('/dev/null').write_text(f'KREPLAY1 txn={order}\n')
    out.write(text)


work('order-8812', b'first\n')
work('order-8813', b'second\n')
Path('/dev/null').write_text('KREPLAY1 end\n')
out.write(b'neither\n')
