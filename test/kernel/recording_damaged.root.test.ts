// A page of the recording is damaged: the agent continues in a new one, and what the old one still holds is served.
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { PAGE_BYTES } from '../../agent/recording/format/schema.ts';
import { readAnswerSpans, readCoverage } from '../../daemon/coverage/coverage.ts';
import { createEmbeddedStore } from '../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import { removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const PATIENCE_MS = 60_000;

afterAll(removeFolders);

/** Flips a bit in the first page of a table or index. */
function damage(path: string, table: string): void {
  const database = new Database(path, { readonly: true });
  const page = database.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').pluck().get(table) as number;
  database.close();
  const bytes = readFileSync(path);
  bytes[(page - 1) * PAGE_BYTES + 300]! ^= 1;
  writeFileSync(path, bytes);
}

function writeLabelled(file: string): void {
  writeFileSync('/dev/null', 'KREPLAY1 txn=order-1');
  writeFileSync(file, 'x');
}

let recorded: Promise<string> | undefined;

/** The folder of an agent that has ended. */
async function whole(): Promise<string> {
  recorded ??= recordOnce();
  return recorded;
}

async function recordOnce(): Promise<string> {
  const agent = await startAgent(temporaryFolder());
  writeLabelled(join(temporaryFolder(), 'before'));
  await agent.stop();
  return agent.dataFolder;
}

test.each([
  ['it reads when it starts', 'name'],
  ['it comes upon later', 'segment_context'],
])(
  'an agent continues in a new recording after a damaged page that %s',
  async (_when, table) => {
    const folder = temporaryFolder();
    const path = join(folder, 'recording.kreplay');
    const written = temporaryFolder();
    const write = (name: string) => writeLabelled(join(written, name));
    cpSync(await whole(), folder, { recursive: true });
    damage(path, table);
    const second = await startAgent(folder);
    const store = openRecordingStore(folder);
    const holds = (name: string) => {
      const file = join(written, name);
      for (const { block, dictionary } of store.scan({ filter: { pid: process.pid }, order: 'asc' }))
        for (const id of (block.columns.get('sys_write.file') as Uint32Array | undefined) ?? [])
          if (dictionary.file(id)?.path === file) return true;
      return false;
    };
    const setAside = () => readdirSync(folder).filter((name) => /^recording\.damaged-\w+\.kreplay$/.test(name));
    const deadline = performance.now() + PATIENCE_MS;
    while (performance.now() < deadline && !(setAside().length > 0 && holds('after'))) {
      write('after');
      await sleep(250);
    }
    expect(setAside()).toHaveLength(1);
    expect(holds('after')).toBe(true);
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    const read = await readAnswerSpans(createEmbeddedStore(store), undefined, nowNs);
    const { complete, gaps } = await readCoverage(createEmbeddedStore(store), read, { nowNs });
    expect(complete).toBe(false);
    expect(gaps.map(({ cause }) => cause)).toContain('recording_damaged');
    expect(store.listRecordingStates().map(({ source }) => source)[0]).toBe('live');
    const states = store.listRecordingStates().flatMap(({ lost }) => lost.map(({ cause }) => cause));
    expect(states.includes('damaged') || store.listUnreadable().length > 0).toBe(true);
    store.close();
    await second.stop();
  },
  180_000,
);
