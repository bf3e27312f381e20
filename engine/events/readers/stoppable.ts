/**
 * Makes `return()` end a generator at once, by `stop`, which ends what the generator waits for. By default `return()`
 * waits for the next value first.
 */
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
