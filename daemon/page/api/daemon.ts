/** Sends requests to the daemon with this tab's token, and parses its JSON without rounding integers. */
import { parseJson } from '../../base/exact_json.ts';
import type { TokenKeeper } from '../access/token.ts';
import { createUnreachableFailure, FailedRequest, type Failure, readFailure } from './failure.ts';

export interface AskOptions {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Sent as JSON, in which bigints are integers. */
  body?: object;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Lets the request outlive the page. */
  keepalive?: boolean;
}

export interface Daemon {
  /** Throws a FailedRequest unless the daemon answers with success. */
  ask(path: string, asked?: AskOptions): Promise<Response>;
  /** Returns the parsed body of the answer; undefined if it is empty. */
  askJson<Body>(path: string, asked?: AskOptions): Promise<Body>;
  /**
   * Creates the error for a failure that another thread reports; a missing token is handled as in this thread's
   * requests.
   */
  createFailedRequest(failure: Failure): FailedRequest;
  /** Returns the headers that authorize this tab. */
  authorization(): Record<string, string>;
}

/** Calls `onUnauthorized` when a token is needed and the tab has none. */
export function createDaemon(tokens: TokenKeeper, onUnauthorized: () => void): Daemon {
  const authorization = (): Record<string, string> => {
    const token = tokens.get();
    return token === null ? {} : { Authorization: `Bearer ${token}` };
  };

  async function ask(path: string, { method = 'GET', body, headers, signal, keepalive }: AskOptions = {}) {
    const request: RequestInit = {
      method,
      headers: { Accept: 'application/json', ...authorization(), ...headers },
      // A proxy in front of the daemon may identify people by cookie, password or certificate. Answers change, so they
      // are not cached.
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

/** Writes JSON with bigints as integers; JSON.rawJSON is missing in some browsers. */
export function encodeExactJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(encodeExactJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${encodeExactJson(field)}`).join(',')}}`;
}
