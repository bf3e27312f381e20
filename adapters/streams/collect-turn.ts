import { ProviderError } from '../../protocol/error.ts';
import type { ModelTurn, TurnDelta } from '../../protocol/turn.ts';

/**
 * Reads a stream to its end and returns its turn. Rejects with a `ProviderError` `malformed-stream` if the
 * stream has no turn or more than one; `origin` names the provider and model in that error.
 *
 * @example
 * const turn = await collectTurn(adapter.stream(request, { signal }));
 */
export async function collectTurn(
  stream: AsyncIterable<TurnDelta>,
  origin: { provider: string; model: string } = { provider: '', model: '' },
): Promise<ModelTurn> {
  let collected: ModelTurn | undefined;
  for await (const delta of stream) {
    if (delta.type !== 'turn') continue;
    if (collected) throw brokenContract(origin, 'contained a second turn');
    collected = delta.turn;
  }
  if (!collected) throw brokenContract(origin, 'ended without a turn');
  return collected;
}

function brokenContract(
  { provider, model }: { provider: string; model: string },
  what: string,
): ProviderError {
  return new ProviderError(`Expected a stream that ends with exactly one turn, but it ${what}.`, {
    code: 'malformed-stream',
    status: null,
    retryable: true,
    retryAfterMs: null,
    provider,
    model,
    raw: null,
  });
}
