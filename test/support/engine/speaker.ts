import fc from 'fast-check';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { Item } from '../../../protocol/item.ts';
import { refusalOf, textOf } from '../../../protocol/message.ts';
import type { TurnDelta } from '../../../protocol/turn.ts';

const GONE = {
  code: 'overloaded',
  status: 529,
  retryable: true,
  retryAfterMs: null,
  provider: 'p',
  model: 'm',
  raw: null,
} as const;

/** What a model says in a turn, in order; `says` in its stream differs from the entry's text only if `lies`. */
type Said = { items: Item[]; deltas: TurnDelta[] };

const words = fc.constantFrom('', 'Hello', ' there', '<!-- secret -->', '<!-', 'é漢', ' the end.');
const said = fc.oneof(
  fc.record({ kind: fc.constant('text' as const), pieces: fc.array(words, { maxLength: 4 }) }),
  fc.record({ kind: fc.constant('reasoning' as const), pieces: fc.array(words, { maxLength: 3 }) }),
  fc.record({ kind: fc.constant('refusal' as const) }),
  fc.record({ kind: fc.constant('item' as const) }),
  fc.record({ kind: fc.constant('sealed' as const), early: fc.boolean() }),
  fc.record({
    kind: fc.constant('call' as const),
    name: fc.constantFrom('read', 'act', 'ask', 'fail', 'none'),
    early: fc.boolean(),
  }),
);

/** What a model says in a turn. */
export const spokenTurn = fc.record({
  said: fc.array(said, { maxLength: 6 }),
  /** Whether the entry has another text than its stream. */
  lies: fc.integer({ min: 0, max: 9 }).map(chance => chance === 0),
  /** Fails once after so many deltas; never by default. */
  breaksAt: fc.option(fc.nat(5), { nil: undefined, freq: 4 }),
});
export type SpokenTurn = typeof spokenTurn extends fc.Arbitrary<infer Value> ? Value : never;

function speak({ said: parts, lies }: SpokenTurn, number: number): Said {
  const items: Item[] = [];
  const deltas: TurnDelta[] = [];
  let refusals = 0;
  const sealed: number[] = [];
  let calls = 0;
  for (const part of parts) {
    const last = items.at(-1);
    switch (part.kind) {
      case 'text': {
        const text = part.pieces.join('');
        items.push({
          type: 'message',
          role: 'assistant',
          content: [{ type: 'text', text: lies ? `${text}!` : text }],
        });
        for (const piece of part.pieces)
          deltas.push({ type: 'text', text: piece, ...(refusals > 0 && { refusals }), sealed: [...sealed] });
        break;
      }
      case 'reasoning':
        if (part.pieces.join('') === '') break;
        items.push({ type: 'reasoning', text: part.pieces.join('') });
        for (const piece of part.pieces) deltas.push({ type: 'reasoning', text: piece, sealed: [...sealed] });
        break;
      case 'refusal':
        refusals += 1;
        if (last?.type === 'message' && refusalOf(last) === '')
          items[items.length - 1] = { ...last, opaque: { provider: 'p', data: { refusal: 'No.' } } };
        else
          items.push({
            type: 'message',
            role: 'assistant',
            content: [],
            opaque: { provider: 'p', data: { refusal: 'No.' } },
          });
        break;
      case 'item':
        items.push({
          type: 'provider_item',
          kind: 'web_search_call',
          opaque: { provider: 'p', data: { id: `search-${number}-${items.length}` } },
        });
        break;
      case 'sealed':
        items.push({ type: 'reasoning', text: '', opaque: { provider: 'p', data: {} } });
        if (part.early) sealed.push(refusals);
        break;
      case 'call': {
        const callId = `call-${number}-${calls}`;
        items.push({ type: 'tool_call', callId, name: part.name, arguments: '{"n":1}' });
        deltas.push({ type: 'call_started', index: calls, name: part.name, ...(part.early && { callId }) });
        deltas.push({ type: 'call_arguments', index: calls, text: '{"n"' });
        calls += 1;
        break;
      }
    }
  }
  return { items, deltas };
}

/** A model that says these turns, each as it was written. */
export function speaker(turns: readonly SpokenTurn[]): ModelAdapter {
  let next = 0;
  const broken = new Set<number>();
  return {
    provider: 'p',
    model: 'm',
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: false,
      structuredOutput: 'native',
      continuation: false,
      usage: 'unknown' as const,
    },
    generate: () => Promise.reject(new Error('streams only')),
    async *stream({ toolChoice }) {
      const number = next;
      const end: SpokenTurn = {
        said: [{ kind: 'text', pieces: [' the end.'] }],
        lies: false,
        breaksAt: undefined,
      };
      const given = toolChoice === 'none' ? end : (turns[number] ?? end);
      const { items, deltas } = speak(given, number);
      for (const [at, delta] of deltas.entries()) {
        if (at === given.breaksAt && !broken.has(number)) {
          broken.add(number);
          throw new ProviderError('gone', GONE);
        }
        yield delta;
      }
      next += 1;
      const calls = items.filter(item => item.type === 'tool_call');
      yield {
        type: 'turn',
        turn: {
          text: items.map(textOf).join(''),
          reasoning: '',
          toolCalls: calls.map(({ callId, name, arguments: written }) => ({
            callId,
            name,
            arguments: written,
            input: JSON.parse(written),
            executedBy: 'engine' as const,
          })),
          finishReason: calls.length > 0 ? 'tool_calls' : 'stop',
          usage: null,
          model: 'm',
          items,
        },
      };
    },
  };
}
