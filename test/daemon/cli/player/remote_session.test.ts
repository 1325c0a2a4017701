/** Tests that a stream which is temporarily refused is requested again: the session still exists. */
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRemoteSession } from '../../../../daemon/cli/player/remote_session.ts';
import { recorded, START } from '../../recorded.ts';
import { served } from '../../served.ts';

test.each(['busy', 'shutting_down'])(
  '%s does not end a session',
  async (code) => {
    const daemon = await served(recorded([{ at: START, transaction: 'tx' }]));
    let refused = 0;
    // A proxy in front of the daemon refuses the stream, as a daemon does that has no free connection.
    const proxy = createServer((req, res) => {
      if (req.url!.endsWith('/events') && refused++ < 2) {
        res.writeHead(503, { 'content-type': 'application/problem+json', 'retry-after': '1' });
        res.end(JSON.stringify({ code, detail: 'try again' }));
        return;
      }
      const { method, headers, url: path } = req;
      const onward = request({ port: daemon.port, host: '127.0.0.1', path, method, headers }, (answer) => {
        res.writeHead(answer.statusCode!, answer.headers);
        answer.on('error', () => res.destroy()).pipe(res);
      });
      req.pipe(onward.on('error', () => res.destroy()));
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const session = await createRemoteSession(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, {
      transaction_id: 'tx',
    });
    const kinds: string[] = [];
    for await (const frame of session.frames()) {
      kinds.push(frame.kind);
      if (frame.kind === 'state') break;
    }
    expect(kinds).toEqual(['lost', 'lost', 'state']);
    session.close();
    proxy.close();
    proxy.closeAllConnections();
  },
  20_000,
);
