/** Records a transaction, and has a store pin it that serves the folder, as a daemon does: `node pinner.ts FOLDER`. */
import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openWriter } from '../../../agent/recording/write/writer.ts';
import { createEmbeddedStore } from '../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { blockOf } from '../../agent/recording/fixture.ts';
import { FLUSH_ROWS, rowOf, START_NS } from '../../agent/recording/power/events.ts';

const folder = process.argv[2]!;
const path = join(folder, 'recording.kreplay');
const identity = { node: 'node-1', bootId: 'boot-1', machineId: 'machine' };
const writer = openWriter({ path, ...identity, nowNs: () => START_NS, retention: { bytes: 1 << 30 } });
const context = writer.contextId({ transactionId: 'pinned', traceId: null, spanId: null });
writer.append(blockOf(Array.from({ length: FLUSH_ROWS }, (_, i) => ({ ...rowOf(i), context }))));
writer.flush();
const store = createEmbeddedStore(openRecordingStore(folder));
await store.pin({ transactionId: 'pinned', beforeNs: 0n, nowNs: START_NS });
writeSync(1, `committed ${FLUSH_ROWS}, and pinned\n`);
// The writer has the file open until it is killed: nothing else copies the log to the file, and syncs it.
await sleep(60_000);
