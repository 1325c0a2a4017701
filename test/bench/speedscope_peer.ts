/**
 * speedscope, which draws profiles in a browser: it gets the same events as a file of its own format, from a server on
 * this machine. A profile of it is one track, and it shows one profile at a time.
 */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import express from 'express';
import { type PageEvent, pageEvents, TRACKS, trackName } from './page_recordings.ts';

const RELEASE = join(dirname(createRequire(import.meta.url).resolve('speedscope/package.json')), 'dist/release');
const FRAMES = ['sys_write', 'sys_sync', 'block_io'] as const satisfies readonly PageEvent['type'][];
const PROFILE = 'profile.json';
const EVENTS_A_WRITE = 4096;

/** Writes the events as a file of speedscope; resolves to the file's size in bytes. */
export async function writeProfile(folder: string, count: number): Promise<number> {
  const tracks: PageEvent[][] = Array.from({ length: TRACKS }, () => []);
  for (const event of pageEvents(count)) tracks[event.track]!.push(event);
  const file = createWriteStream(join(folder, PROFILE));
  const write = async (text: string) => {
    if (!file.write(text)) await once(file, 'drain');
  };
  const shared = { frames: FRAMES.map((name) => ({ name })) };
  const schema = 'https://www.speedscope.app/file-format-schema.json';
  await write(`{"$schema":"${schema}","name":"events","shared":${JSON.stringify(shared)},"profiles":[`);
  for (const [track, events] of tracks.entries()) {
    const endNs = Math.max(...events.slice(-1).map(({ startNs, durationNs }) => startNs + durationNs), 0);
    const head = { type: 'evented', name: trackName(track), unit: 'nanoseconds', startValue: 0, endValue: endNs };
    await write(`${track > 0 ? ',' : ''}${JSON.stringify(head).slice(0, -1)},"events":[`);
    for (let from = 0; from < events.length; from += EVENTS_A_WRITE) {
      const some = events.slice(from, from + EVENTS_A_WRITE).map(openAndClose);
      await write((from > 0 ? ',' : '') + some.join());
    }
    await write(']}');
  }
  await write(']}');
  file.end();
  await once(file, 'finish');
  return file.bytesWritten;
}

function openAndClose({ type, startNs, durationNs }: PageEvent): string {
  const frame = FRAMES.indexOf(type);
  return `{"type":"O","frame":${frame},"at":${startNs}},{"type":"C","frame":${frame},"at":${startNs + durationNs}}`;
}

export interface ServedPeer {
  /** Address of its page, which loads the file. */
  url: string;
  close(): void;
}

export async function serveSpeedscope(folder: string): Promise<ServedPeer> {
  const app = express()
    .use(express.static(RELEASE))
    .get(`/${PROFILE}`, (_req, res) => res.sendFile(PROFILE, { root: folder }));
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `${origin}/#profileURL=${encodeURIComponent(`${origin}/${PROFILE}`)}`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
