/** Bearer tokens (RFC 6750). */
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { Problem } from '../../base/problem.ts';
import { cut } from '../cut.ts';
import { clientOf } from './client_address.ts';
import { createFailureLimit } from './failure_limit.ts';
import { createProxies, type Proxies } from './proxies.ts';
import { scopesFor } from './scopes.ts';
import type { Token, Tokens } from './tokens.ts';

const CREDENTIALS = /^bearer +([\w.~+/-]+=*)$/i;
const REALM = 'Bearer realm="kreplay"';

interface Options {
  tokens: Tokens;
  nowMs: () => number;
  log: Logger;
  /** Proxies that are believed about their clients; none if omitted. */
  proxies?: Proxies;
}

/** Answers in progress, by the token that authorized them: a stream does not outlive its token. */
export interface OpenAnswers {
  add(res: Response, token: Token): void;
  /** Returns the token that authorized an answer in progress. */
  tokenOf(res: Response): Token | undefined;
  /** Cuts answers whose token is not valid any longer. */
  cut(): void;
}

export interface BearerCheck {
  check: RequestHandler;
  answers: OpenAnswers;
}

export function createBearerCheck({ tokens, nowMs, log, proxies = createProxies() }: Options): BearerCheck {
  const failures = createFailureLimit(nowMs);
  const answers = createOpenAnswers(tokens);

  function tokenOf(req: Request, res: Response): Token {
    // Node would use the first of several Authorization headers.
    const given = req.headersDistinct.authorization ?? [];
    if (given.length === 0) throw unauthorized(res, REALM, 'a token is needed: send Authorization: Bearer ...');
    const secret = given.length === 1 ? CREDENTIALS.exec(given[0]!)?.[1] : undefined;
    const token = secret === undefined ? undefined : tokens.find(secret);
    if (token) return token;
    const client = clientOf(proxies.askerOf(req).address);
    const wait_s = failures.note(client);
    if (wait_s > 0) {
      res.set('Retry-After', String(wait_s));
      throw new Problem('too_many_attempts', 'too many requests with a wrong token came from this address');
    }
    log.warn({ client }, 'a client presented a wrong token');
    throw unauthorized(res, `${REALM}, error="invalid_token"`, 'the token is unknown, expired or revoked');
  }

  return {
    answers,
    check(req, res, next) {
      const token = tokenOf(req, res);
      const scopes = scopesFor(req);
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
    tokenOf: (res) => open.get(res),
    cut() {
      for (const [res, token] of open) if (!tokens.isGood(token)) cut(res);
    },
  };
}

function unauthorized(res: Response, challenge: string, detail: string): Problem {
  res.set('WWW-Authenticate', challenge);
  return new Problem('unauthorized', detail);
}
