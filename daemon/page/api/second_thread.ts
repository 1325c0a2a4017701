/** Sends questions to the page's second thread, a web worker; each question starts a new thread. */

/** Address of the second thread's script, which the bundler inserts. */
declare const WORKER_ADDRESS: string;

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(text: string): string },
  ): { createScriptURL(text: string): string };
}

/**
 * The page's security policy accepts script addresses only from this object, which returns only the address of the
 * page's own worker.
 */
const policy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('kreplay', {
  createScriptURL: () => WORKER_ADDRESS,
});

/**
 * Starts a thread for the question, and calls `taken` with each answer. Resolves when `taken` returns true. The signal
 * ends the thread.
 */
export function askThread<Answer>(
  question: object,
  taken: (answer: Answer) => boolean,
  signal: AbortSignal,
): Promise<void> {
  const worker = new Worker(policy ? policy.createScriptURL('') : WORKER_ADDRESS, { type: 'module' });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  worker.addEventListener('message', ({ data }: MessageEvent<Answer>) => {
    try {
      if (taken(data)) resolve();
    } catch (error) {
      reject(error);
    }
  });
  worker.addEventListener('error', ({ message }) =>
    reject(new Error(message || 'the second thread cannot be started')),
  );
  signal.addEventListener('abort', () => reject(signal.reason));
  worker.postMessage(question);
  return promise.finally(() => worker.terminate());
}
