import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAgent } from '../../agent/agent.ts';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { estimateTokens, fitTokens, keepLast, type Trim } from '../../text/trim-transcript.ts';
import { makeTool } from '../support/engine/agents.ts';
import { answerWith, recordRequests } from '../support/engine/models.ts';

const opaque = fc.option(fc.constant({ provider: 'p', data: 'signed' }), { nil: undefined });
const text = fc.string({ maxLength: 40 });
const callId = fc.constantFrom('c1', 'c2', 'c3', 'c4', 'c5', 'c6');

const anyItem: fc.Arbitrary<Item> = fc.oneof(
  { arbitrary: message(fc.constant('user')), weight: 3 },
  { arbitrary: message(fc.constantFrom('assistant', 'system', 'developer')), weight: 2 },
  {
    arbitrary: fc.tuple(text, opaque).map(([of, sealed]) => seal({ type: 'reasoning', text: of }, sealed)),
    weight: 3,
  },
  {
    arbitrary: fc
      .tuple(callId, opaque)
      .map(([id, sealed]) => seal({ type: 'tool_call', callId: id, name: 't', arguments: '{}' }, sealed)),
    weight: 4,
  },
  {
    arbitrary: fc
      .tuple(callId, text)
      .map(([id, output]): Item => ({ type: 'tool_result', callId: id, output, isError: false })),
    weight: 4,
  },
  {
    arbitrary: fc.constant<Item>({ type: 'provider_item', kind: 'k', opaque: { provider: 'p', data: 1 } }),
    weight: 1,
  },
  {
    arbitrary: callId.map((id): Item => ({ type: 'approval_response', callId: id, approve: true })),
    weight: 1,
  },
  { arbitrary: fc.constant<Item>({ type: 'tool_list', label: 'l', tools: [] }), weight: 1 },
);

/** Random items in any order, with unique ids. */
const anyTranscript = fc
  .array(anyItem, { maxLength: 30 })
  .map(items => items.map((item, index): Item => ({ ...item, id: `i${index}` })));

const pinnedIds = fc.uniqueArray(
  fc.nat(29).map(index => `i${index}`),
  { maxLength: 3 },
);

/** A conversation as a run makes it: messages of the user, and turns with a thought, calls and their results. */
const anyConversation = fc
  .array(fc.oneof(fc.constant('user'), fc.integer({ min: 1, max: 3 })), { minLength: 1, maxLength: 40 })
  .map(steps => [
    [{ ...userMessage('task'), id: 'task' }],
    ...steps.map((step, at): Item[] => {
      if (typeof step === 'string') return [{ ...userMessage('more'), id: `user ${at}` }];
      const ids = Array.from({ length: step }, (_, call) => `${at}.${call}`);
      return [
        { type: 'reasoning', id: `thought ${at}`, text: 'hm', opaque: { provider: 'p', data: 's' } },
        ...ids.map((callId): Item => ({ type: 'tool_call', callId, name: 't', arguments: '{}' })),
        ...ids.map((callId): Item => ({ type: 'tool_result', callId, output: 'ok', isError: false })),
      ];
    }),
  ]);

function message(role: fc.Arbitrary<'user' | 'assistant' | 'system' | 'developer'>): fc.Arbitrary<Item> {
  return fc
    .tuple(role, text)
    .map(([by, of]): Item => ({ type: 'message', role: by, content: [{ type: 'text', text: of }] }));
}

function seal(item: Item, sealed: { provider: string; data: string } | undefined): Item {
  return sealed === undefined ? item : ({ ...item, opaque: sealed } as Item);
}

const anyTrim: fc.Arbitrary<(pinned: string[]) => Trim> = fc.oneof(
  fc.nat(12).map(count => (pinned: string[]) => keepLast(count, { pinned })),
  fc.integer({ min: 1, max: 120 }).map(limit => (pinned: string[]) => fitTokens(limit, { pinned })),
);

/** Checks a property of every transcript and every way to trim it. */
function checkAll(rule: (full: readonly Item[], kept: readonly Item[], pinned: readonly string[]) => void) {
  fc.assert(
    fc.property(anyTranscript, anyTrim, pinnedIds, (full, makeTrim, pinned) => {
      rule(full, makeTrim(pinned)(full), pinned);
    }),
    { numRuns: 1000 },
  );
}

describe('trimming', () => {
  test('removes items and changes nothing else', () => {
    checkAll((full, kept) => {
      expect(kept).toEqual(full.filter(item => kept.includes(item)));
    });
  });

  test('never separates a call from its result', () => {
    checkAll((full, kept) => {
      for (const item of full) {
        if (item.type !== 'tool_call' && item.type !== 'tool_result') continue;
        const others = full.filter(other => 'callId' in other && other.callId === item.callId);
        if (kept.includes(item)) expect(kept).toEqual(expect.arrayContaining(others));
      }
    });
  });

  test('never removes a pinned item', () => {
    checkAll((full, kept, pinned) => {
      const held = full.filter(({ id = '' }) => pinned.includes(id));
      expect(kept).toEqual(expect.arrayContaining(held));
    });
  });

  test('never removes signed reasoning of a call that stays', () => {
    checkAll((full, kept) => {
      for (const [place, item] of full.entries()) {
        const before = full[place - 1];
        if (item.type !== 'tool_call' || !kept.includes(item)) continue;
        if (before?.type === 'reasoning' && before.opaque) expect(kept).toContain(before);
      }
    });
  });

  test("never removes the user's first or last message, an instruction, or the last item", () => {
    checkAll((full, kept) => {
      const ofUser = full.filter(item => item.type === 'message' && item.role === 'user');
      const instructions = full.filter(
        item => item.type === 'message' && (item.role === 'system' || item.role === 'developer'),
      );
      const sent = full.filter(({ type }) => type !== 'approval_response' && type !== 'tool_list');
      const held = [...ofUser.slice(0, 1), ...ofUser.slice(-1), ...instructions, ...sent.slice(-1)];
      expect(kept).toEqual(expect.arrayContaining(held));
    });
  });

  test('returns the transcript itself when nothing is removed', () => {
    fc.assert(
      fc.property(anyTranscript, full => {
        expect(keepLast(full.length)(full)).toBe(full);
        expect(fitTokens(1_000_000)(full)).toBe(full);
      }),
    );
  });

  test('of a transcript that grows extends what it kept, or cuts at least half of the room away', () => {
    const tokensOf = () => 1;
    fc.assert(
      fc.property(anyConversation, fc.integer({ min: 1, max: 60 }), fc.boolean(), (steps, bound, counts) => {
        const trim = counts ? keepLast(bound) : fitTokens(bound, { tokensOf });
        const least = keepLast(0);
        // `keepLast` also keeps the task, the user's last message at a cut, and the turn in which its count begins.
        const more = counts ? 8 : 0;
        let before: readonly Item[] = [];
        for (let count = 1; count <= steps.length; count += 1) {
          const full = steps.slice(0, count).flat();
          const kept = trim(full);
          if (before.every((item, at) => item === kept[at]))
            expect(kept.slice(before.length)).toEqual(full.slice(full.length - kept.length + before.length));
          else {
            const mostAfterCut = Math.max(
              1 + (bound - 1) / 2 + (steps[count - 1]?.length ?? 0) + more,
              least(full).length,
            );
            expect(kept.length).toBeLessThanOrEqual(mostAfterCut);
            expect(before.length + (steps[count - 1]?.length ?? 0)).toBeGreaterThan(bound);
          }
          if (kept.length > bound + more) expect(kept).toEqual(least(full));
          before = kept;
        }
      }),
      { numRuns: 1000 },
    );
  });

  test('is idempotent', () => {
    fc.assert(
      fc.property(anyTranscript, anyTrim, pinnedIds, (full, makeTrim, pinned) => {
        const trim = makeTrim(pinned);
        expect(trim(trim(full))).toEqual(trim(full));
      }),
    );
  });
});

/** A user's task, followed by rounds of a signed thought, two calls and their results. */
function makeRounds(count: number): Item[] {
  const rounds = Array.from({ length: count }, (_, round): Item[] => {
    const ids = [`${round}a`, `${round}b`];
    return [
      { type: 'reasoning', id: `thought ${round}`, text: 'hm', opaque: { provider: 'p', data: 's' } },
      ...ids.map(
        (id): Item => ({ type: 'tool_call', id: `call ${id}`, callId: id, name: 't', arguments: '{}' }),
      ),
      ...ids.map(
        (id): Item => ({ type: 'tool_result', id: `result ${id}`, callId: id, output: 'ok', isError: false }),
      ),
    ];
  });
  return [{ ...userMessage('Do it.'), id: 'task' }, ...rounds.flat()];
}

const idsOf = (items: readonly Item[]) => items.map(({ id }) => id);
const round = (number: number) => idsOf(makeRounds(number + 1).slice(-5));

describe('keepLast', () => {
  test('keeps the last items, complete turns and the task', () => {
    expect(idsOf(keepLast(10)(makeRounds(3)))).toEqual(['task', ...round(2)]);
    expect(idsOf(keepLast(11)(makeRounds(3)))).toEqual(idsOf(makeRounds(3)));
  });

  test('cuts to half of its bound, and then grows to the bound again', () => {
    const sizes = Array.from({ length: 12 }, (_, count) => keepLast(30)(makeRounds(count)).length);
    expect(sizes).toEqual([1, 6, 11, 16, 21, 26, 31, 16, 21, 26, 31, 16]);
  });

  test('keeps the last user message before a cut until the next one', () => {
    const asked: Item[] = [...makeRounds(2), { ...userMessage('More.'), id: 'more' }];
    const grown = [...asked, ...makeRounds(9).slice(11)];
    const trim = keepLast(15);
    const later = [...grown.slice(0, 22), { ...userMessage('Now.'), id: 'now' }];
    expect(idsOf(trim(grown.slice(0, 22)))).toEqual(['task', 'more', ...round(2), ...round(3)]);
    expect(idsOf(trim(later))).toEqual(['task', 'more', ...round(2), ...round(3), 'now']);
  });

  test('keeps items pinned by a predicate, with their complete turn', () => {
    const pinned = (item: Item) => item.type === 'tool_result' && item.callId === '0b';
    expect(idsOf(keepLast(1, { pinned })(makeRounds(3)))).toEqual(['task', ...round(0), ...round(2)]);
  });

  test.each([-1, 1.5, Number.NaN])('rejects a limit of %d items', count => {
    expect(() => keepLast(count)).toThrow(/whole number/);
  });
});

describe('fitTokens', () => {
  const tokensOf = () => 1;

  test('keeps the newest turns that fit together with the task, by the given estimate', () => {
    expect(idsOf(fitTokens(21, { tokensOf })(makeRounds(5)))).toEqual(['task', ...round(3), ...round(4)]);
    expect(idsOf(fitTokens(15, { tokensOf })(makeRounds(3)))).toEqual(['task', ...round(2)]);
  });

  test('counts pinned items against the same limit', () => {
    const pinned = ['thought 0'];
    expect(idsOf(fitTokens(11, { tokensOf, pinned })(makeRounds(3)))).toEqual([
      'task',
      ...round(0),
      ...round(2),
    ]);
  });

  test('exceeds the limit only with items that must stay', () => {
    fc.assert(
      fc.property(anyTranscript, fc.integer({ min: 1, max: 200 }), (full, limit) => {
        const kept = fitTokens(limit)(full);
        const count = (items: readonly Item[]) => items.reduce((sum, item) => sum + estimateTokens(item), 0);
        if (count(kept) > limit) expect(kept).toEqual(fitTokens(1, { tokensOf: () => 1 })(full));
      }),
    );
  });

  test('leaves no gap: it stops at the first turn that does not fit, even if an older one would', () => {
    const weights = (item: Item) => (item.id === 'thought 1' ? 100 : 1);
    expect(idsOf(fitTokens(20, { tokensOf: weights })(makeRounds(3)))).toEqual(['task', ...round(2)]);
  });

  test.each([0, -1, Number.NaN])('rejects a limit of %d tokens', limit => {
    expect(() => fitTokens(limit)).toThrow(/above 0/);
  });
});

describe('estimateTokens', () => {
  test('counts the longer of readable and opaque data, and a constant for media', () => {
    const picture: Item = {
      type: 'message',
      role: 'user',
      content: [
        { type: 'text', text: 'a'.repeat(40) },
        { type: 'image', url: `data:image/png;base64,${'A'.repeat(9999)}` },
      ],
    };
    expect(estimateTokens(picture)).toBe(1010);
    const thought: Item = { type: 'reasoning', text: '', opaque: { provider: 'p', data: 'x'.repeat(398) } };
    expect(estimateTokens(thought)).toBe(100);
  });

  test('counts the part of a long result that the model reads', () => {
    const output = 'x'.repeat(4000);
    const result: Item = { type: 'tool_result', callId: 'c', output, isError: false };
    expect(estimateTokens(result)).toBeGreaterThan(999);
    expect(estimateTokens({ ...result, shown: 'x'.repeat(40) })).toBe(10);
  });
});

describe('in prepareTurn', () => {
  async function runWith(trim: Trim) {
    const { model, requests } = recordRequests(
      answerWith((_, before) =>
        before < 3
          ? { toolCalls: [{ callId: `c${before}`, name: 'read' }], continuation: `after ${before}` }
          : { text: 'done' },
      ),
    );
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      model,
      tools: [makeTool('read', { sideEffect: 'none' })],
      prepareTurn: ({ transcript }) => ({ transcript: trim(transcript) }),
    });
    const run = await agent.start('go');
    await run.settled();
    return { requests, run };
  }

  test('requests are trimmed, and the run keeps its transcript', async () => {
    const { requests, run } = await runWith(keepLast(2));
    expect(requests.map(({ transcript }) => transcript.length)).toEqual([1, 3, 3, 3]);
    expect(run.context.transcript).toHaveLength(8);
  });

  test('a transcript that is returned unchanged keeps the continuation', async () => {
    const full = await runWith(keepLast(100));
    expect(full.requests.map(({ continuation }) => continuation)).toEqual([
      undefined,
      'after 0',
      'after 1',
      'after 2',
    ]);
    const trimmed = await runWith(keepLast(2));
    expect(trimmed.requests[2]?.continuation).toBeUndefined();
  });
});
