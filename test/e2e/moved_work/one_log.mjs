// FOLDER [record]: does what one_log.go does, with each request on a thread of libuv's pool.
import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';

const [folder, isRecorded] = process.argv.slice(2);
if (isRecorded) writeFileSync('/dev/null', 'KREPLAY1 proc txn=order');
const log = await open(`${folder}/log`, 'a');
let worst = 0;
let at = 0;
for (let i = 0; i < 60; i++) {
  if (i === 31 && isRecorded) {
    execFileSync('fsfreeze', ['--freeze', folder]);
    spawn('sh', ['-c', `sleep 0.3; fsfreeze --unfreeze ${folder}`]);
  }
  const start = performance.now();
  await log.write(`request ${i}\n`);
  await log.sync();
  const took = performance.now() - start;
  if (took > worst) [worst, at] = [took, i];
}
console.log(at, Math.floor(worst));
