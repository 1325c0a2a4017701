/** A service manager as far as a service sees one: a socket that receives its messages. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Message {
  pid: number;
  text: string;
  /** The time of performance.now() when it came. */
  atMs: number;
}

export interface Notifications {
  path: string;
  messages: readonly Message[];
  /** Resolves with the first message that matches. */
  told(pattern: RegExp): Promise<string>;
  /** Resolves with the next ones that match. */
  next(count: number, pattern: RegExp): Promise<Message[]>;
  close(): void;
}

/** A Python program listens, since Node has no Unix datagram sockets. */
export async function listenForNotifications(path: string): Promise<Notifications> {
  const child: ChildProcess = spawn('python3', [join(import.meta.dirname, 'notifications.py'), path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const messages: Message[] = [];
  const lines = createInterface({ input: child.stdout! });
  await once(lines, 'line');
  lines.on('line', (line) => {
    const [pid, ...words] = line.split(' ');
    messages.push({ pid: Number(pid), text: words.join(' '), atMs: performance.now() });
  });
  const matching = (pattern: RegExp, from: number) => messages.slice(from).filter(({ text }) => pattern.test(text));
  async function some(count: number, pattern: RegExp, from: number): Promise<Message[]> {
    while (matching(pattern, from).length < count) await once(lines, 'line');
    return matching(pattern, from).slice(0, count);
  }
  return {
    path,
    messages,
    told: async (pattern) => (await some(1, pattern, 0))[0]!.text,
    next: (count, pattern) => some(count, pattern, messages.length),
    close: () => void child.kill(),
  };
}
