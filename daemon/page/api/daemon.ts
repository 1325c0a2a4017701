/** Sends requests to the daemon with this tab's token, and parses the daemon's JSON without rounding integers. */
import { parseJson } from '../../base/exact_json.ts';
import type { TokenKeeper } from '../access/token.ts';
import { createUnreachableFailure, FailedRequest, type Failure, readFailure } from './failure.ts';

export interface AskOptions {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** The request's body, sent as JSON with bigints as integers. */
  body?: object;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Whether the request continues after the page is closed. */
  keepalive?: boolean;
}

export interface Daemon {
  /** Returns the answer. Throws a FailedRequest if the daemon cannot be reached or answers with an error status. */
  ask(path: string, asked?: AskOptions): Promise<Response>;
  /** Returns the parsed body of the answer; undefined for an empty body. */
  askJson<Body>(path: string, asked?: AskOptions): Promise<Body>;
  /**
   * Creates the error for a failure that the second thread reports. If its code is `unauthorized`, the page asks for a
   * token, as it does for this thread's own requests.
   */
  createFailedRequest(failure: Failure): FailedRequest;
  /** Returns the headers that authorize this tab. */
  authorization(): Record<string, string>;
}

/**
 * Creates the daemon's client, which calls `onUnauthorized` when the daemon asks for a token or refuses the tab's
 * token.
 */
export function createDaemon(tokens: TokenKeeper, onUnauthorized: () => void): Daemon {
  const authorization = (): Record<string, string> => {
    const token = tokens.get();
    return token === null ? {} : { Authorization: `Bearer ${token}` };
  };

  async function ask(path: string, { method = 'GET', body, headers, signal, keepalive }: AskOptions = {}) {
    const request: RequestInit = {
      method,
      headers: { Accept: 'application/json', ...authorization(), ...headers },
      // `same-origin` also sends cookies, passwords and certificates, by which a proxy in front of the daemon may
      // identify people. Answers change, so they are not cached.
      credentials: 'same-origin',
      cache: 'no-store',
      redirect: 'manual',
      referrerPolicy: 'no-referrer',
      ...(signal && { signal }),
      ...(keepalive && { keepalive }),
    };
    if (body) {
      request.body = encodeExactJson(body);
      request.headers = { ...(request.headers as Record<string, string>), 'Content-Type': 'application/json' };
    }
    let response: Response;
    try {
      // The path is relative to the page, because a proxy may serve the page below a path.
      response = await fetch(`.${path}`, request);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new FailedRequest(createUnreachableFailure(error));
    }
    if (response.ok) return response;
    throw createFailedRequest(await readFailure(response));
  }

  function createFailedRequest(failure: Failure): FailedRequest {
    if (failure.code === 'unauthorized') {
      tokens.forget();
      onUnauthorized();
    }
    return new FailedRequest(failure);
  }

  return {
    authorization,
    ask,
    createFailedRequest,
    async askJson<Body>(path: string, asked?: AskOptions): Promise<Body> {
      const text = await (await ask(path, asked)).text();
      return (text === '' ? undefined : parseJson(text)) as Body;
    },
  };
}

/** Returns a value as JSON with bigints as integers. JSON.rawJSON, which could do this, is missing in some browsers. */
export function encodeExactJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(encodeExactJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${encodeExactJson(field)}`).join(',')}}`;
}
