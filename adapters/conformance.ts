import { type NamesOf, optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { AdapterCheck, AdapterUnderTest, ConformanceCallOptions, Exchange } from './conformance/call.ts';
import { allChecks } from './conformance/checks.ts';

export type { ReplayedAnswer as Answer, SeenRequest } from './conformance/replay.ts';
export {
  atRandom,
  eachInTurn as oneByOne,
  inPiecesOf,
  inTwoEverywhere,
  type ReplayFetch,
  type ReplayServer,
  replayFetch,
  splitAt,
  startReplayServer,
} from './conformance/replay.ts';
export type { AdapterCheck, AdapterUnderTest, ConformanceCallOptions as OpenOptions, Exchange };

const NAMES: NamesOf<AdapterUnderTest> = { open: true, exchanges: true, contentOf: true, except: true };
const EXCHANGE_NAMES = optionNames<Exchange>()(
  'name request response streamed contentType expect fails comesBack sameTurnAs',
);

/**
 * Returns the requirements for an adapter as named checks for any test runner: the same turn streamed or not
 * and however its bytes are split, opaque data that is sent back unchanged, aborts that close the connection,
 * and failures that are a `ProviderError` with the right code. A check rejects if the adapter violates its
 * requirement. Throws a `RangeError` if `exchanges` lacks a streamed or a complete response, or if `except`
 * names an unknown check.
 *
 * @example
 * const exchanges = [
 *   { name: 'hello', streamed: false, response: body, expect: { text: 'hello', finishReason: 'stop' } },
 *   { name: 'hello, streamed', streamed: true, response: events, sameTurnAs: 'hello' },
 * ];
 * const open = (options: OpenOptions) => acme({ model: 'acme-1', ...options });
 * for (const { name, run } of adapterChecks({ open, exchanges })) test(name, run);
 */
export function adapterChecks(subject: AdapterUnderTest): AdapterCheck[] {
  refuseUnknownOptions('adapterChecks', subject, NAMES, 'input-invalid');
  for (const exchange of subject.exchanges)
    refuseUnknownOptions(`the exchange "${exchange.name}"`, exchange, EXCHANGE_NAMES, 'input-invalid');
  for (const streamed of [true, false]) {
    if (!subject.exchanges.some(exchange => exchange.streamed === streamed && !exchange.fails)) {
      throw new RangeError(`At least one exchange with streamed: ${streamed} is required.`);
    }
  }
  const checks = allChecks(subject);
  const except = Object.keys(subject.except ?? {});
  const unknown = except.find(name => !checks.some(check => check.name === name));
  if (unknown !== undefined) throw new RangeError(`The option except names an unknown check: "${unknown}".`);
  return checks.filter(({ name }) => !except.includes(name));
}
