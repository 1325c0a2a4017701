/** Answers on their way, by the token that opened them: a stream does not outlive its token. */
import type { Response } from 'express';
import { cut } from '../cut.ts';
import type { Token, Tokens } from './tokens.ts';

export interface OpenAnswers {
  add(res: Response, token: Token): void;
  /** Cuts those whose token is good no more. */
  cut(): void;
}

export function createOpenAnswers(tokens: Tokens): OpenAnswers {
  const open = new Map<Response, Token>();
  return {
    add(res, token) {
      open.set(res, token);
      res.once('close', () => open.delete(res));
    },
    cut() {
      for (const [res, token] of open) if (!tokens.isGood(token)) cut(res);
    },
  };
}
