import { describe, expect, test } from 'vitest';
import { replayFetch } from '../../../adapters/conformance.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ModelTurn } from '../../../protocol/turn.ts';
import type { Fact } from '../../support/adapters/facts/fact.ts';
import { readFacts } from '../../support/adapters/facts/read-facts.ts';
import { rolesInPrompt } from '../../support/adapters/facts/read-harmony.ts';
import { subjects } from '../../support/adapters/fixtures/subjects.ts';
import { CITIES, SENTENCE, WEATHER_REQUEST } from '../../support/adapters/fixtures/weather.ts';
import type { Format } from '../../support/adapters/recordings.ts';
import { calling, result } from '../../support/adapters/requests.ts';

type Subject = (typeof subjects)[string];

const FORMATS: Record<string, Format> = {
  openaiResponses: 'responses',
  xai: 'responses',
  azure: 'responses',
  anthropic: 'anthropic',
  gemini: 'gemini',
  geminiInteractions: 'interactions',
  ollama: 'ollama',
  harmony: 'harmony',
};

/** The call ids that a provider accepts; the others accept any id. */
const ID_FORMS: Record<string, RegExp> = {
  anthropic: /^[A-Za-z0-9_-]+$/,
  mistral: /^[A-Za-z0-9]{9}$/,
  openaiResponses: /^.{1,64}$/,
  openaiChat: /^.{1,40}$/,
};

const OUTPUTS = ['rain', 'sun'];
const MORE = 'And tomorrow?';
/** Mistral accepts no user message directly after a result. */
const BRIDGE = { type: 'text', text: expect.any(String) };

const CALLS = CITIES.map(input => ({ type: 'call', id: expect.any(String), name: 'weather', input }));
const RESULTS = OUTPUTS.map(output => ({ type: 'result', id: expect.any(String), output }));
/** Without ids, only the position tells which call a result belongs to. */
const IN_PAIRS = CALLS.flatMap((call, at) => [call, RESULTS[at]]);

const pairs = Object.keys(subjects).flatMap(from =>
  Object.keys(subjects)
    .filter(to => to !== from)
    .map(to => ({ from, to })),
);

describe.each(pairs)('a transcript made by $from', ({ from, to }) => {
  test(`continues with ${to}: calls and results together, valid ids, no opaque data`, async () => {
    const { modelRequest, turn } = await continued(from);
    const sent = await bodySent(subjects[to], modelRequest);
    const facts = readFacts(FORMATS[to] ?? 'chat', sent);

    expect(facts.filter(({ type }) => type !== 'thought')).toEqual([
      { type: 'instruction', text: WEATHER_REQUEST.instructions },
      { type: 'user', text: expect.stringContaining('Köln') },
      { type: 'text', text: SENTENCE },
      ...(to === 'harmony' ? IN_PAIRS : [...CALLS, ...RESULTS]),
      ...(to === 'mistral' ? [BRIDGE] : []),
      { type: 'user', text: MORE },
    ]);
    expectLegalIds(facts, ID_FORMS[to]);
    expect(rolesIn(sent)).toEqual(to === 'mistral' ? BRIDGED : ORDERS[FORMATS[to] ?? 'chat']);
    if (providerOf(from) !== providerOf(to)) expectNothingOpaque(turn, sent);
  });
});

/** A turn of this provider with two calls, their results, and a message of the user. */
async function continued(from: string): Promise<{ modelRequest: ModelRequest; turn: ModelTurn }> {
  const turn = await generated(subjects[from]);
  const results = turn.toolCalls.map(({ callId }, index) => result(callId, OUTPUTS[index] ?? ''));
  const transcript = [...WEATHER_REQUEST.transcript, ...turn.items, ...results, userMessage(MORE)];
  return { modelRequest: JSON.parse(JSON.stringify({ ...WEATHER_REQUEST, transcript })), turn };
}

function open(subject: Subject | undefined, fetch: typeof globalThis.fetch) {
  if (!subject) throw new RangeError('There is no such subject.');
  return subject.open({
    baseURL: 'http://provider.invalid',
    apiKey: 'test-key',
    fetch,
    maxResponseBytes: 1_000_000,
    idleTimeoutMs: 60_000,
  });
}

function answerOf(subject: Subject | undefined) {
  const chunks = [subject?.exchanges.find(({ name }) => name === 'calls')?.response ?? ''];
  return replayFetch({ headers: { 'content-type': 'application/json' }, chunks });
}

function generated(subject: Subject | undefined): Promise<ModelTurn> {
  return open(subject, answerOf(subject).fetch).generate(WEATHER_REQUEST, calling());
}

async function bodySent(subject: Subject | undefined, modelRequest: ModelRequest): Promise<JsonObject> {
  const { fetch, requests } = answerOf(subject);
  await open(subject, fetch).generate(modelRequest, calling());
  expect(requests).toHaveLength(1);
  return requests[0]?.body ?? {};
}

function providerOf(name: string): string {
  const nowhere = replayFetch();
  return open(subjects[name], nowhere.fetch).provider;
}

/** Each call has a unique id and its result has the same; in a dialect without ids the order decides. */
function expectLegalIds(facts: readonly Fact[], form: RegExp | undefined): void {
  const calls = facts.flatMap(fact => (fact.type === 'call' ? fact.id : []));
  const results = facts.flatMap(fact => (fact.type === 'result' ? fact.id : []));
  expect(results).toEqual(calls);
  if (calls.every(id => id === '')) return;
  expect(new Set(calls).size).toBe(calls.length);
  for (const id of calls) expect(id).toMatch(form ?? /./);
}

/** The speakers in order; instructions and reasoning may be anywhere. */
function rolesIn(sent: JsonObject): string[] {
  if (sent.prompt !== undefined) return rolesInPrompt(sent);
  const entries = [sent.messages, sent.contents, sent.input].find(Array.isArray) ?? [];
  return entries
    .map(entry => (isJsonObject(entry) ? String(entry.role ?? entry.type) : ''))
    .filter(role => !['system', 'developer', 'reasoning', 'thought'].includes(role));
}

const ORDERS: Record<Format, string[]> = {
  responses: [
    'user',
    'assistant',
    'function_call',
    'function_call',
    'function_call_output',
    'function_call_output',
    'user',
  ],
  chat: ['user', 'assistant', 'tool', 'tool', 'user'],
  anthropic: ['user', 'assistant', 'user'],
  gemini: ['user', 'model', 'user', 'user'],
  interactions: [
    ...['user_input', 'model_output', 'function_call', 'function_call'],
    ...['function_result', 'function_result', 'user_input'],
  ],
  ollama: ['user', 'assistant', 'tool', 'tool', 'user'],
  harmony: [
    'user',
    'assistant',
    'assistant to functions.weather',
    'functions.weather to assistant',
    'assistant to functions.weather',
    'functions.weather to assistant',
    'user',
  ],
};

const BRIDGED = ['user', 'assistant', 'tool', 'tool', 'assistant', 'user'];

/** Checks that no text of the opaque data is sent, except for visible parts of the turn and short common words. */
function expectNothingOpaque(turn: ModelTurn, sent: JsonObject): void {
  const sentTexts = textsOf(sent);
  const opaque = turn.items.flatMap(item =>
    'opaque' in item && item.opaque ? textsOf(item.opaque.data) : [],
  );
  const shown = JSON.stringify([turn.text, turn.reasoning, turn.toolCalls]);
  const secret = opaque.filter(text => text.length > 4 && !shown.includes(JSON.stringify(text).slice(1, -1)));
  for (const text of secret.filter(text => !WORDS.has(text))) {
    expect(sentTexts.filter(sentText => sentText.includes(text))).toEqual([]);
  }
}

/** Words of the dialects themselves. */
const WORDS: ReadonlySet<string> = new Set(['reasoning', 'weather', 'message', 'function_call', 'tool_use']);

function textsOf(value: JsonValue): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(textsOf);
}
