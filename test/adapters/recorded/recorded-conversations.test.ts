import { describe, expect, test } from 'vitest';
import { objectOf } from '../../../adapters/turn/json-access.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { ModelRequest, ModelTurn } from '../../../protocol/turn.ts';
import type { Fact } from '../../support/adapters/facts/fact.ts';
import { readFacts } from '../../support/adapters/facts/read-facts.ts';
import { retell } from '../../support/adapters/facts/retell.ts';
import { playRecorded } from '../../support/adapters/play-recorded.ts';
import {
  type RecordedTurn,
  readRecordedJson,
  recordedTurns,
  recordingsArePresent,
} from '../../support/adapters/recordings.ts';
import { request } from '../../support/adapters/requests.ts';

type Difference = {
  /** Facts that are excluded from the comparison. */
  without: readonly Fact['type'][];
  reason: string;
};

const THINK_TAGS: Difference = {
  without: ['text', 'thought'],
  reason:
    'The client put the reasoning between tags in the text; the adapter returns it in its original member.',
};

/** Known differences between our requests and those of the recorded client, and their reasons. */
const DIFFERENCES: Record<string, Difference> = {
  'openai-responses/stream-tool-then-text 2': {
    without: ['call', 'result'],
    reason: 'The client sent the id of the output item as the id of the call; results belong to the call_id.',
  },
  'openai-responses/error-400-reasoning-orphan 2': {
    without: ['text'],
    reason: "The client changed the model's output to test the provider's response.",
  },
  'gemini/tool-parallel 2': {
    without: ['opaque'],
    reason: 'The client copied the signature of the first parallel call to the second; the adapter does not.',
  },
  'groq/error-400-tool-use-failed 3': THINK_TAGS,
  'groq/stream-error-tool-use-failed 3': THINK_TAGS,
};

/** Recorded requests that do not continue the turns before them. */
const BEGINS_ANEW: ReadonlySet<string> = new Set([
  'openai-responses/stream-web-search-annotations 2',
  'openai-responses/stream-web-search-annotations 3',
  'openai-responses/error-400-reasoning-orphan 3',
  'gemini/cached-content 2',
]);

type Conversation = { name: string; turns: RecordedTurn[] };

const conversations: Conversation[] = [...Map.groupBy(recordedTurns(), turn => turn.case)]
  .map(([name, turns]) => ({ name, turns }))
  .filter(({ turns }) => turns.length > 1);

test.skipIf(!recordingsArePresent)('recordings are available', () => {
  expect(conversations.length).toBeGreaterThan(0);
});

describe.each(conversations)('recorded conversation $name', ({ turns }) => {
  test('sends the same facts as the recorded requests', async () => {
    const providerIds = new Set(
      turns.flatMap(turn => (turn.expect.toolCalls ?? []).flatMap(call => call.id ?? [])),
    );
    const made: (ModelTurn | undefined)[] = [];
    let before: ModelRequest['transcript'] = [];
    for (const [index, recorded] of turns.entries()) {
      if (!recorded.request) continue;
      const body = readRecordedJson(recorded.request);
      const recordedFacts = readFacts(recorded.format, body);
      const previous = turns.findIndex(
        turn => turn.expect.responseId !== undefined && turn.expect.responseId === body.previous_response_id,
      );
      const own = previous === -1 ? made.flatMap(turn => turn ?? []) : [];
      const retold = retell(recordedFacts, own);
      const last = made[previous];
      const transcript = last ? [...before, ...last.items, ...retold.transcript] : retold.transcript;
      const modelRequest = request(transcript, {
        ...omitUndefined({ instructions: retold.instructions, continuation: last?.continuation }),
        tools: toolsIn([...recordedFacts]),
      });
      const { sent, turn } = await playRecorded(recorded, body, modelRequest);
      made[index] = turn;
      before = transcript;
      if (index === 0) continue;
      expect(retold.turns.length, recorded.name).toBe(BEGINS_ANEW.has(recorded.name) ? 0 : own.length);
      const theirs = withPlainIds(recordedFacts, providerIds).map(withPlainSigns);
      const ours = withPlainIds(readFacts(recorded.format, sent), providerIds)
        .map(withPlainSigns)
        .map((fact, at) => asFarAs(theirs[at], fact));
      const difference = DIFFERENCES[recorded.name];
      if (difference) {
        expect(ours, `${recorded.name} no longer differs`).not.toEqual(theirs);
        const same = (fact: Fact) => !difference.without.includes(fact.type);
        expect(ours.filter(same), recorded.name).toEqual(theirs.filter(same));
      } else expect(ours, recorded.name).toEqual(theirs);
      expect(sent.previous_response_id, recorded.name).toEqual(body.previous_response_id ?? undefined);
    }
  });
});

function toolsIn(facts: readonly Fact[]): ModelRequest['tools'] {
  const names = new Set(facts.flatMap(fact => (fact.type === 'call' ? fact.name : [])));
  return [...names].map(name => ({ name, description: name, inputSchema: { type: 'object' } }));
}

/** Ids that the provider did not assign are arbitrary: they are numbered, as long as call and result agree. */
function withPlainIds(facts: readonly Fact[], providerIds: ReadonlySet<string>): Fact[] {
  const plain = new Map<string, string>();
  let calls = 0;
  let results = 0;
  return facts.map(fact => {
    if (fact.type === 'call') {
      const count = `#${calls++}`;
      if (providerIds.has(fact.id)) return fact;
      if (fact.id !== '') plain.set(fact.id, count);
      return { ...fact, id: count };
    }
    if (fact.type === 'result') {
      const count = `#${results++}`;
      return providerIds.has(fact.id) ? fact : { ...fact, id: plain.get(fact.id) ?? count };
    }
    return fact;
  });
}

/** One client's recorder replaced typographic quotes and dashes of its requests by plain ones. */
function withPlainSigns(fact: Fact): Fact {
  return JSON.parse(
    JSON.stringify(fact)
      .replace(/[\u2018\u2019]/g, "'")
      .replace(/[\u201c\u201d]/g, '\\"')
      .replace(/[\u2013\u2014]/g, '-'),
  );
}

/** Provider-run calls go back as they came; some clients send only the members they know. */
function asFarAs(theirs: Fact | undefined, ours: Fact): Fact {
  if (theirs?.type !== 'server' || ours.type !== 'server') return ours;
  return { type: 'server', item: objectOf(membersOf(theirs.item, ours.item)) };
}

function membersOf(theirs: JsonValue, ours: JsonValue): JsonValue {
  if (Array.isArray(theirs) && Array.isArray(ours)) {
    return ours.map((entry, at) => membersOf(theirs[at] ?? null, entry));
  }
  if (!isJsonObject(theirs) || !isJsonObject(ours)) return ours;
  return Object.fromEntries(
    Object.entries(ours).flatMap(([name, member]) =>
      theirs[name] === undefined ? [] : [[name, membersOf(theirs[name], member)]],
    ),
  );
}
