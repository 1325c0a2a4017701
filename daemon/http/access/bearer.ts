/** Bearer tokens (RFC 6750). */
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { Problem } from '../../base/problem.ts';
import { abortResponse } from '../abort_response.ts';
import { toClientKey } from './client_address.ts';
import { createProxies, type Proxies } from './proxies.ts';
import { chooseScopes } from './scopes.ts';
import type { Token, Tokens } from './tokens.ts';

const CREDENTIALS = /^bearer +([\w.~+/-]+=*)$/i;
const REALM = 'Bearer realm="kreplay"';

interface Options {
  tokens: Tokens;
  nowMs: () => number;
  log: Logger;
  /** Proxies whose headers about their clients (`X-Forwarded-For` and others) are trusted; none if omitted. */
  proxies?: Proxies;
}

/** Answers in progress and the tokens that authorized them: a stream must not outlive its token. */
export interface OpenAnswers {
  add(res: Response, token: Token): void;
  /** Returns the token that authorized an answer in progress. */
  getToken(res: Response): Token | undefined;
  /** Cuts off answers whose token is no longer valid. */
  cut(): void;
}

export interface BearerCheck {
  check: RequestHandler;
  answers: OpenAnswers;
}

export function createBearerCheck({ tokens, nowMs, log, proxies = createProxies() }: Options): BearerCheck {
  const failures = createFailureLimit(nowMs);
  const answers = createOpenAnswers(tokens);

  function authenticate(req: Request, res: Response): Token {
    // `req.headers` has only the first of several Authorization headers.
    const given = req.headersDistinct.authorization ?? [];
    if (given.length === 0)
      throw createUnauthorizedProblem(res, REALM, 'a token is needed: send Authorization: Bearer ...');
    const secret = given.length === 1 ? CREDENTIALS.exec(given[0]!)?.[1] : undefined;
    const token = secret === undefined ? undefined : tokens.find(secret);
    if (token) return token;
    const client = toClientKey(proxies.findAsker(req).address);
    const wait_s = failures.note(client);
    if (wait_s > 0) {
      res.set('Retry-After', String(wait_s));
      throw new Problem('too_many_attempts', 'too many requests with a wrong token came from this address');
    }
    log.warn({ client }, 'a client presented a wrong token');
    throw createUnauthorizedProblem(res, `${REALM}, error="invalid_token"`, 'the token is unknown, expired or revoked');
  }

  return {
    answers,
    check(req, res, next) {
      const token = authenticate(req, res);
      const scopes = chooseScopes(req);
      if (!scopes.some((scope) => token.scopes.has(scope))) {
        res.set('WWW-Authenticate', `${REALM}, error="insufficient_scope", scope="${scopes.join(' ')}"`);
        throw new Problem('forbidden', `this needs a token with the scope ${scopes.join(' or ')}`);
      }
      answers.add(res, token);
      next();
    },
  };
}

function createOpenAnswers(tokens: Tokens): OpenAnswers {
  const open = new Map<Response, Token>();
  return {
    add(res, token) {
      open.set(res, token);
      res.once('close', () => open.delete(res));
    },
    getToken: (res) => open.get(res),
    cut() {
      for (const [res, token] of open) if (!tokens.isGood(token)) abortResponse(res);
    },
  };
}

function createUnauthorizedProblem(res: Response, challenge: string, detail: string): Problem {
  res.set('WWW-Authenticate', challenge);
  return new Problem('unauthorized', detail);
}

/**
 * Limits the number of wrong tokens per client: BURST at once, then one every REFILL_MS. The limit only keeps the log
 * short, because a secret is impossible to guess. Therefore a valid token always works, and no client can lock out
 * other clients at the same address.
 */
const BURST = 10;
const REFILL_MS = 6_000;
/** Maximum number of clients that are remembered; the client that failed longest ago is forgotten first. */
const CLIENTS_MAX = 4096;

interface FailureLimit {
  /**
   * Records a failure and returns the number of seconds that the client should wait; 0 while more failures are allowed.
   */
  note(client: string): number;
  readonly size: number;
}

export function createFailureLimit(nowMs: () => number): FailureLimit {
  const failures = new Map<string, { left: number; atMs: number }>();
  return {
    note(client) {
      const atMs = nowMs();
      const before = failures.get(client);
      const left = before ? Math.min(BURST, before.left + (atMs - before.atMs) / REFILL_MS) : BURST;
      const allowed = left >= 1;
      failures.delete(client);
      failures.set(client, { left: allowed ? left - 1 : left, atMs });
      if (failures.size > CLIENTS_MAX) failures.delete(failures.keys().next().value!);
      return allowed ? 0 : Math.ceil(((1 - left) * REFILL_MS) / 1000);
    },
    get size() {
      return failures.size;
    },
  };
}
