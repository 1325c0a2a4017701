/** Describes a failure in words, and what to do next. */

import { escapeHidden } from '../../model/wording/names.ts';
import { chooseAdvice, type Failure } from '../api/failure.ts';

interface Props {
  failure: Failure;
  /** Called by the retry button; if given, the page also retries by itself when a retry may succeed. */
  onRetry?: (() => void) | undefined;
}

export function FailureNote({ failure, onRetry }: Props) {
  const advice = chooseAdvice(failure, onRetry !== undefined);
  return (
    <div role="alert" class="failure">
      <p>
        <strong>{escapeHidden(failure.detail)}</strong>
        {advice && <span> — {advice}</span>}
      </p>
      {failure.requestId && (
        <p class="quiet">
          request <code>{failure.requestId}</code>, as the daemon's log has it
        </p>
      )}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Ask again
        </button>
      )}
    </div>
  );
}
