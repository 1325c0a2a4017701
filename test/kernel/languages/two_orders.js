/** Writes for two orders, and once for neither. */
import { appendFileSync, writeFileSync } from 'node:fs';

const out = process.argv[2];

function work(order, text) {
  writeFileSync('/dev/null', `KREPLAY1 txn=${order}\n`);
  appendFileSync(out, text);
}

work('order-8812', 'first\n');
work('order-8813', 'second\n');
writeFileSync('/dev/null', 'KREPLAY1 end\n');
appendFileSync(out, 'neither\n');
