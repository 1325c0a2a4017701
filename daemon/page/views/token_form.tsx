/** Asks the user for a token if the daemon needs one. */
import { useState } from 'preact/hooks';
import { isTokenForm } from '../access/token.ts';
import type { Failure } from '../api/failure.ts';
import { FailureNote } from './failure_note.tsx';

interface Props {
  /** The failure with which the daemon refused the last token; null if no token was refused. */
  failure: Failure | null;
  onToken: (token: string) => void;
}

export function TokenForm({ failure, onToken }: Props) {
  const [isWrong, setIsWrong] = useState(false);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const token = String(new FormData(event.currentTarget as HTMLFormElement).get('token') ?? '').trim();
    setIsWrong(!isTokenForm(token));
    if (isTokenForm(token)) onToken(token);
  };
  return (
    <main class="panel narrow">
      <h1>This daemon needs a token</h1>
      <p>
        Whoever runs it makes one with <code>kreplay token create</code>. It stays in this tab, and is forgotten when
        the tab is closed.
      </p>
      <form onSubmit={submit}>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="off" spellcheck={false} required />
        <button type="submit">Open</button>
      </form>
      {isWrong && (
        <p role="alert" class="failure">
          This is not a token: one has the form krp_ and 43 letters, digits, - or _.
        </p>
      )}
      {failure && !isWrong && <FailureNote failure={failure} />}
    </main>
  );
}
