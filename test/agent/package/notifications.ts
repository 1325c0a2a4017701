/** A service manager as far as a service sees one: a socket that receives its messages. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Notifications {
  path: string;
  lines(): string[];
  /** Resolves with the first line that matches. */
  told(pattern: RegExp): Promise<string>;
  /** Counts the matching lines that arrive within this time. */
  countIn(ms: number, pattern: RegExp): Promise<number>;
  close(): void;
}

/** A Python program listens, since Node has no Unix datagram sockets. */
export async function listenForNotifications(path: string): Promise<Notifications> {
  const child: ChildProcess = spawn('python3', [join(import.meta.dirname, 'notifications.py'), path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  const lines = () => text.split('\n').slice(0, -1);
  while (!text.includes('listening')) await once(child.stdout!, 'data');
  return {
    path,
    lines,
    async told(pattern) {
      for (;;) {
        const found = lines().find((line) => pattern.test(line));
        if (found !== undefined) return found;
        await once(child.stdout!, 'data');
      }
    },
    async countIn(ms, pattern) {
      const before = lines().length;
      await sleep(ms);
      return lines()
        .slice(before)
        .filter((line) => pattern.test(line)).length;
    },
    close: () => void child.kill(),
  };
}
