/** A receiver of webhooks that keeps a log of its own, and lies as often as it is asked to. */
import { createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export const SECRET = 'the secret of the receiver';

export interface Taken {
  id: string;
  body: {
    id: string;
    rule: string;
    held_back: number;
    pinned: boolean;
    transaction: { transaction_id: string; duration_ns: number };
    bundle: { folder: string; file: string; bytes: number } | null;
    bundle_problem: string | null;
  };
}

/** Wrong answers of a receiver to a delivery, by name. */
export const LIES: Readonly<Record<string, (req: IncomingMessage, res: ServerResponse) => void>> = {
  error: (_req, res) => void res.writeHead(500).end('no'),
  redirect: (_req, res) => void res.writeHead(302, { location: '/elsewhere' }).end(),
  close: (req) => void req.socket.destroy(),
  hang() {},
  late: (_req, res) => void setTimeout(() => res.writeHead(200).end(), 2000).unref(),
};

export interface Receiver {
  url: string;
  /** All requests with a correct signature, those that were lied to included. */
  readonly seen: string[];
  readonly taken: Taken[];
  /** Problems with requests: a wrong signature, or a redirect that was followed. */
  readonly wrong: string[];
  /** Names of the lies that were told. */
  readonly lied: Set<string>;
  /** Chooses the lie for a request; undefined is the truth. */
  setLies(choose: () => string | undefined): void;
  close(): void;
}

export async function startReceiver(): Promise<Receiver> {
  let choose: () => string | undefined = () => undefined;
  const [seen, taken, wrong, lied]: [string[], Taken[], string[], Set<string>] = [[], [], [], new Set()];
  const server = createServer((req, res) => {
    let text = '';
    req.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    req.on('end', () => {
      const id = String(req.headers['webhook-id']);
      const signed = createHmac('sha256', SECRET)
        .update(`${id}.${req.headers['webhook-timestamp']}.${text}`)
        .digest('base64');
      if (req.url !== '/in') wrong.push(`followed to ${req.url}`);
      if (req.headers['webhook-signature'] !== `v1,${signed}`) wrong.push(`signature of ${id}`);
      seen.push(id);
      const lie = choose();
      if (lie !== undefined) {
        lied.add(lie);
        return LIES[lie]!(req, res);
      }
      taken.push({ id, body: JSON.parse(text) });
      res.writeHead(204).end();
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/in`,
    seen,
    taken,
    wrong,
    lied,
    setLies(chosen) {
      choose = chosen;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Waits until the condition holds, for this long at most. */
export async function until(isSo: () => boolean, waitMs = 30_000): Promise<void> {
  const deadline = performance.now() + waitMs;
  while (!isSo() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 50));
}
