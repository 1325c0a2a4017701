/** Answers in progress, by the token that authorized them: a stream does not outlive its token. */
import type { Response } from 'express';
import { cut } from '../cut.ts';
import type { Token, Tokens } from './tokens.ts';

export interface OpenAnswers {
  add(res: Response, token: Token): void;
  /** Cuts answers whose token is not valid any longer. */
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
