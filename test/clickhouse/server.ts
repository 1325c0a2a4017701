/** A ClickHouse server for the tests: its own folder, configuration and loopback port. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Certificate, read } from '../daemon/certificates.ts';
import { freePort } from '../free_port.ts';

export { freePort };

const PROGRAM = '/usr/sbin/clickhouse-server';
export const isInstalled = existsSync(PROGRAM);
if (!isInstalled) console.warn(`skipped: ${PROGRAM} is not installed (clickhouse-server)`);

/** A server makes a file for each column of each part: in memory, where a mount is allowed, that takes half the time. */
const isMounted = process.getuid?.() === 0;

const READY_MS_MAX = 30_000;
const STARTS_MAX = 5;

/** Password of each account; `default` has none. */
export const ACCOUNTS = { writer: "wri'tér \\ pass", reader: 'reader' } as const;

interface Options {
  /** Serves HTTPS with this certificate, and asks clients for one that the authority has signed. */
  tls?: { certificate: Certificate; authority: Certificate };
  /** Its port for other servers; a free one by default. */
  tcpPort?: number;
  /** Further XML of the configuration. */
  more?: string;
}

export interface ClickHouseServer {
  url: string;
  port: number;
  folder: string;
  child: ChildProcess;
  /** Runs a statement and returns its answer; throws an answer that is an error. */
  sql(statement: string, body?: Uint8Array): Promise<Buffer>;
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** Starts it again over the same files. */
  restart(): Promise<void>;
}

const started: (() => Promise<void>)[] = [];

/** Ends something of the tests' own with the servers, after those that were started later. */
export function endWithServers(end: () => Promise<void>): void {
  started.push(end);
}

/** Suites call it in afterAll(): a suite that fails half-way must leave nothing running. */
export async function endServers(): Promise<void> {
  for (const end of started.splice(0).reverse()) await end();
}

export async function startServer(options: Options = {}): Promise<ClickHouseServer> {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-clickhouse-'));
  if (isMounted) execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', folder]);
  let child: ChildProcess | undefined;
  let [port, tcpPort] = [0, 0];

  async function kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  async function begin(): Promise<void> {
    // Another process may take a port between the look for a free one and the server's start.
    for (let tries = 1; ; tries++) {
      if (port === 0 || tries > 1) [port, tcpPort] = [await freePort(), options.tcpPort ?? (await freePort())];
      writeConfiguration(folder, port, tcpPort, options);
      child = spawn(PROGRAM, [`--config-file=${folder}/config.xml`], { stdio: 'ignore', cwd: folder });
      if (await isReady(child, tcpPort, port)) return;
      await kill();
      if (tries === STARTS_MAX) throw new Error(`no server: ${readFileSync(join(folder, 'log'), 'utf8')}`);
    }
  }

  started.push(async () => {
    await kill();
    if (isMounted) execFileSync('umount', ['--lazy', folder]);
    rmSync(folder, { recursive: true, force: true });
  });
  await begin();
  const url = () => `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`;
  return {
    get url() {
      return url();
    },
    get port() {
      return port;
    },
    folder,
    get child() {
      return child!;
    },
    async sql(statement, body) {
      // Debian's server makes tables with LowCardinality only when it is asked to.
      const query = `${body === undefined ? '' : `query=${encodeURIComponent(statement)}&`}allow_experimental_low_cardinality_type=1`;
      const { status, answer } = await post(`${url()}/?${query}`, body ?? statement, options.tls);
      if (status !== 200) throw new Error(answer.toString());
      return answer;
    },
    kill,
    restart: begin,
  };
}

/** Without a connection that is kept, which the server closes after seconds. */
async function post(
  url: string,
  body: Uint8Array | string,
  tls: Options['tls'],
): Promise<{ status: number; answer: Buffer }> {
  const options = { method: 'POST', agent: false as const };
  const sent = tls
    ? httpsRequest(url, { ...options, ...read(tls.certificate), ca: read(tls.authority).cert })
    : httpRequest(url, options);
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode!, answer: Buffer.concat(await response.toArray()) };
}

async function isReady(child: ChildProcess, ...ports: number[]): Promise<boolean> {
  const deadline = performance.now() + READY_MS_MAX;
  while (child.exitCode === null && performance.now() < deadline) {
    if ((await Promise.all(ports.map(isOpen))).every(Boolean)) return true;
    await sleep(25);
  }
  return false;
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

const text = (value: string) => value.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

function writeConfiguration(folder: string, port: number, tcpPort: number, { tls, more = '' }: Options): void {
  const http = tls
    ? `<https_port>${port}</https_port>
  <openSSL><server>
    <certificateFile>${tls.certificate.cert}</certificateFile><privateKeyFile>${tls.certificate.key}</privateKeyFile>
    <caConfig>${tls.authority.cert}</caConfig><verificationMode>strict</verificationMode>
    <loadDefaultCAFile>false</loadDefaultCAFile><disableProtocols>sslv2,sslv3</disableProtocols>
  </server></openSSL>`
    : `<http_port>${port}</http_port>`;
  writeFileSync(
    join(folder, 'config.xml'),
    `<yandex>
  <logger><level>warning</level><log>${folder}/log</log><errorlog>${folder}/errors</errorlog></logger>
  ${http}
  <tcp_port>${tcpPort}</tcp_port><listen_host>127.0.0.1</listen_host>
  <path>${folder}/data/</path><tmp_path>${folder}/tmp/</tmp_path><user_files_path>${folder}/files/</user_files_path>
  <users_config>${folder}/users.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database><timezone>UTC</timezone>
  <mark_cache_size>67108864</mark_cache_size><keep_alive_timeout>3</keep_alive_timeout>
  ${more}
</yandex>`,
  );
  const passwords = { default: '', ...ACCOUNTS };
  const accounts = Object.entries(passwords).map(
    ([name, password]) =>
      `<${name}><password>${text(password)}</password><networks><ip>127.0.0.1</ip></networks>` +
      `<profile>${name === 'reader' ? 'readonly' : 'default'}</profile><quota>default</quota></${name}>`,
  );
  writeFileSync(
    join(folder, 'users.xml'),
    `<yandex>
  <profiles><default/><readonly><readonly>1</readonly></readonly></profiles>
  <users>${accounts.join('\n')}</users>
  <quotas><default/></quotas>
</yandex>`,
  );
}
