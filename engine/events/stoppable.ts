/** Makes `return()` end a generator at once, by `stop`, which ends what it waits for, instead of after the next value. */
export function stoppable<Value>(
  generator: AsyncGenerator<Value, void>,
  stop: () => void,
): AsyncGenerator<Value, void> {
  const end = generator.return.bind(generator);
  generator.return = value => {
    stop();
    return end(value);
  };
  return generator;
}

/** Ends a generator when the signal is aborted. */
export function endOn<Value>(
  generator: AsyncGenerator<Value, void>,
  signal: AbortSignal,
): AsyncGenerator<Value, void> {
  const end = () => void generator.return().catch(() => {});
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  return generator;
}
