// FOLDER [TRANSACTION]: does what one_log.go does, with each request on a thread of libuv's pool.
import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';

const [folder, transaction] = process.argv.slice(2);
if (transaction) writeFileSync('/dev/null', `KREPLAY1 proc txn=${transaction}`);
const log = await open(`${folder}/log`, 'a');
const slow = [];
for (let i = 0; i < 60; i++) {
  if (i === 31 && transaction) {
    execFileSync('fsfreeze', ['--freeze', folder]);
    spawn('sh', ['-c', `sleep 0.3; fsfreeze --unfreeze ${folder}`]);
  }
  const start = performance.now();
  await log.write(`request ${i}\n`);
  await log.sync();
  if (performance.now() - start > 250) slow.push(i);
}
console.log(slow.join());
