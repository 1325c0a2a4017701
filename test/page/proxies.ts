/** Where Debian's reverse proxies are: a suite with the word `proxy` runs if they are installed. */
import { existsSync } from 'node:fs';

export const PROXIES = { nginx: '/usr/sbin/nginx', haproxy: '/usr/sbin/haproxy', caddy: '/usr/bin/caddy' } as const;
export type ProxyName = keyof typeof PROXIES;

export const areInstalled = (): boolean => Object.values(PROXIES).every((file) => existsSync(file));
