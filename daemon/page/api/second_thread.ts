/** The page's second thread: a new one is started for each question. */

/** The bundler puts the address of the second thread's script here. */
declare const WORKER_ADDRESS: string;

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(text: string): string },
  ): { createScriptURL(text: string): string };
}

/**
 * The page's security policy allows only script addresses that this object makes, and it makes only the address of the
 * page's own worker.
 */
const policy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('kreplay', {
  createScriptURL: () => WORKER_ADDRESS,
});

/** Passes each answer to `taken`, and resolves when `taken` returns true. The signal ends the thread. */
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
