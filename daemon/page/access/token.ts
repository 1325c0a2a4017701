/**
 * The token of this tab, kept until the tab is closed. A new tab requests the token from the other tabs. A cookie is
 * not used, because the browser would send it to every server on this host.
 */
import { createKeptTexts } from './kept_texts.ts';

/** The key includes the path, because a proxy may serve several daemons at one address, each under its own path. */
const buildTokenKey = ({ pathname }: Location) => `kreplay.token${pathname}`;
const ANSWER_MS_MAX = 200;
const FORM = /^[\w.~+/-]{1,512}=*$/;

export interface TokenKeeper {
  get(): string | null;
  set(token: string): void;
  forget(): void;
  /** Requests the token from other tabs of this daemon; resolves to whether one of them had a token. */
  askOthers(): Promise<boolean>;
}

/** Whether a text has the form of a token, and can therefore be sent in a header. */
export function isTokenForm(text: string): boolean {
  return FORM.test(text);
}

export function createTokenKeeper(): TokenKeeper {
  const kept = createKeptTexts('sessionStorage');
  const key = buildTokenKey(location);
  const channel = new BroadcastChannel(key);
  let answered: ((token: string) => void) | undefined;
  channel.addEventListener('message', (event) => {
    const data = (event as Event & { data: unknown }).data as { asks?: true; token?: string };
    const token = kept.get(key);
    if (data.asks && token !== null) channel.postMessage({ token });
    if (typeof data.token === 'string') answered?.(data.token);
  });
  return {
    get: () => kept.get(key),
    set: (token) => kept.set(key, token),
    forget: () => kept.set(key, null),
    async askOthers() {
      const answer = new Promise<string | null>((resolve) => {
        answered = resolve;
        setTimeout(() => resolve(null), ANSWER_MS_MAX);
      });
      channel.postMessage({ asks: true });
      const token = await answer;
      answered = undefined;
      if (token === null || !isTokenForm(token)) return false;
      kept.set(key, token);
      return true;
    },
  };
}
