/** Debian's nginx, HAProxy and Caddy, each as a reverse proxy before daemons in the ways in which people have them. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Certificate } from '../daemon/certificates.ts';
import { freePort } from '../free_port.ts';
import { PROXIES, type ProxyName } from './proxies.ts';

/** What the proxies pass requests on to. */
export interface Upstreams {
  /** Port of a daemon that needs tokens. */
  withTokens: number;
  /** Port of a daemon that needs none. */
  open: number;
  /** Unix socket of a daemon that needs none. */
  socket: string;
  /** What a proxy that knows people presents for them. */
  token: string;
}

/** A name that only the browser of the tests resolves, to this machine. */
export const NAME = 'kreplay.example';
export const USER = { username: 'ann', password: 'secret' };
export const COOKIE = 'sso=let-me-in';
/** Where the proxies send people who are not signed in; nothing needs to be there. */
const SIGN_IN = 'https://sign-in.example/';
/** The password as Caddy has it, with the least work that there is. */
const BCRYPT = '$2b$04$ju33AHyK1K9lUfFj2tijdOr9WrO6k5whWeIQe6FZLkWXxdQo0PxTK';

/**
 * What a proxy listens for: `tls` ends TLS before the daemon with tokens; `socket` does so before the unix socket, with the
 * Host of this machine; `below` has the open daemon below `/kreplay/`; `password` and `cookie` know people, and add the
 * token; `bare` passes on to the daemon with tokens, and shows as little as the proxy can.
 */
const WAYS = ['tls', 'socket', 'below', 'password', 'cookie', 'bare'] as const;
type Ports = Record<(typeof WAYS)[number], number>;
type Configuration = (ports: Ports, to: Upstreams, folder: string, certificate: Certificate) => string;

const nginx: Configuration = (ports, to, folder, { cert, key }) => {
  writeFileSync(join(folder, 'passwords'), `ann:${execFileSync('openssl', ['passwd', '-apr1', 'secret'])}`);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const tls = `ssl_certificate ${cert}; ssl_certificate_key ${key};`;
  const pool = 'proxy_http_version 1.1; proxy_set_header Connection "";';
  const token = `proxy_set_header Authorization "Bearer ${to.token}";`;
  return `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/errors;
events { worker_connections 128; }
http {
  access_log off; ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join(' ')}
  upstream tokens { server 127.0.0.1:${to.withTokens}; keepalive 8; }
  map $http_cookie $is_known { default 0; "~${COOKIE}" 1; }
  server { listen 127.0.0.1:${ports.tls} ssl; ${tls}
    location / { proxy_pass http://tokens; ${pool} proxy_set_header Host $host; } }
  server { listen 127.0.0.1:${ports.socket} ssl; ${tls}
    location / { proxy_pass http://unix:${to.socket}; proxy_http_version 1.1; } }
  server { listen 127.0.0.1:${ports.below};
    location /kreplay/ { proxy_pass http://127.0.0.1:${to.open}/; proxy_set_header Host $http_host; } }
  server { listen 127.0.0.1:${ports.password}; auth_basic kreplay; auth_basic_user_file ${folder}/passwords;
    location / { proxy_pass http://tokens; ${pool} ${token} proxy_set_header Host $http_host; } }
  server { listen 127.0.0.1:${ports.cookie} ssl; ${tls}
    location / { if ($is_known = 0) { return 302 ${SIGN_IN}; } proxy_pass http://tokens; ${pool} ${token} } }
  server { listen 127.0.0.1:${ports.bare};
    location / { proxy_pass http://tokens; ${pool} proxy_set_header Host 127.0.0.1; } }
}
`;
};

const haproxy: Configuration = (ports, to, folder, { cert, key }) => {
  const both = join(folder, 'both.pem');
  writeFileSync(both, readFileSync(cert, 'utf8') + readFileSync(key, 'utf8'));
  const way = (name: keyof Ports, tls: string, ...rules: string[]) =>
    [`frontend ${name}`, `  bind 127.0.0.1:${ports[name]}${tls}`, ...rules.map((rule) => `  ${rule}`)].join('\n');
  const [tls, token] = [` ssl crt ${both}`, `http-request set-header Authorization "Bearer ${to.token}"`];
  const isKnown = 'req.hdr(cookie) -m sub let-me-in';
  return `defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
userlist people
  user ann insecure-password secret
backend tokens
  server daemon 127.0.0.1:${to.withTokens}
backend open
  server daemon 127.0.0.1:${to.open}
backend socket
  server daemon unix@${to.socket}
${way('tls', tls, 'option forwardfor', 'default_backend tokens')}
${way('socket', tls, 'http-request set-header Host localhost', 'default_backend socket')}
${way('below', '', 'http-request replace-path /kreplay/(.*) /\\1', 'default_backend open')}
${way('password', '', 'http-request auth unless { http_auth(people) }', token, 'default_backend tokens')}
${way('cookie', tls, `http-request redirect location ${SIGN_IN} unless { ${isKnown} }`, token, 'default_backend tokens')}
${way('bare', '', 'http-request set-header Host 127.0.0.1', 'default_backend tokens')}
`;
};

const caddy: Configuration = (ports, to, folder, { cert, key }) => {
  const way = (scheme: 'http' | 'https', host: string, name: keyof Ports, ...rules: string[]) =>
    [
      `${scheme}://${host}:${ports[name]} {`,
      ...['bind 127.0.0.1', ...(scheme === 'https' ? [`tls ${cert} ${key}`] : []), ...rules].map((one) => `  ${one}`),
      '}',
    ].join('\n');
  const proxy = (address: string, header = '') =>
    `reverse_proxy ${address} {${header === '' ? '' : `\n    header_up ${header}`}\n  }`;
  const tokens = `127.0.0.1:${to.withTokens}`;
  const withToken = proxy(tokens, `Authorization "Bearer ${to.token}"`);
  return `{
  admin off
  auto_https off
  storage file_system ${folder}
}
${way('https', NAME, 'tls', proxy(tokens))}
${way('https', NAME, 'socket', proxy(`unix/${to.socket}`, 'Host localhost'))}
${way('http', '127.0.0.1', 'below', `handle_path /kreplay/* {\n  ${proxy(`127.0.0.1:${to.open}`)}\n  }`)}
${way('http', '127.0.0.1', 'password', `basicauth {\n    ann ${Buffer.from(BCRYPT).toString('base64')}\n  }`, withToken)}
${way('https', NAME, 'cookie', `@unknown not header Cookie *${COOKIE}*`, `redir @unknown ${SIGN_IN} 302`, withToken)}
${way('http', '', 'bare', proxy(tokens, 'Host 127.0.0.1'))}
`;
};

const CONFIGURATIONS: Record<ProxyName, Configuration> = { nginx, haproxy, caddy };

export interface RunningProxy {
  ports: Ports;
  stop(): Promise<void>;
}

export async function startProxy(
  name: ProxyName,
  to: Upstreams,
  folder: string,
  certificate: Certificate,
): Promise<RunningProxy> {
  const ports: Partial<Ports> = {};
  for (const way of WAYS) ports[way] = await freePort();
  const file = join(folder, name === 'caddy' ? 'Caddyfile' : `${name}.conf`);
  writeFileSync(file, CONFIGURATIONS[name](ports as Ports, to, folder, certificate));
  const args = { nginx: ['-c', file], haproxy: ['-f', file], caddy: ['run', '--config', file] }[name];
  const child = spawn(PROXIES[name], args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, HOME: folder },
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  for (const port of Object.values(ports)) await accepting(port, child, () => `${name} has ended: ${said}`);
  return {
    ports: ports as Ports,
    async stop() {
      const ended = once(child, 'exit');
      if (child.kill('SIGKILL')) await ended;
    },
  };
}

/** Resolves when the port takes connections; throws if the program has ended. */
async function accepting(port: number, { exitCode }: ChildProcess, why: () => string): Promise<void> {
  for (;;) {
    if (exitCode !== null) throw new Error(why());
    const socket = connect(port, '127.0.0.1');
    try {
      await once(socket, 'connect');
      return;
    } catch {
      await sleep(20);
    } finally {
      socket.destroy();
    }
  }
}
