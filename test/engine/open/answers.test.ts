import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';
import { type Answer, commandFor, type OpenReference } from '../../../protocol/open/answer.ts';
import { ANSWER_EXAMPLES, readAnswer } from '../../../protocol/open/answer-form.ts';
import type { Open } from '../../../protocol/run-view.ts';

/** The answers that fit each kind, and the type of their commands. */
const FITTING: Record<Open['kind'], Partial<Record<Answer['type'], string>>> = {
  approval: { approve: 'approve', reject: 'reject', result: 'answer' },
  result: { result: 'answer' },
  doubt: { happened: 'resolve', failed: 'resolve', retry: 'resolve' },
  question: { answers: 'answer', reject: 'reject' },
  review: { approve: 'approve', reject: 'reject' },
  'sign-in': { 'signed-in': 'sign-in' },
  pause: { continue: 'unpause', step: 'step' },
};

const text = fc.string();
const flag = fc.boolean();
const json = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<JsonValue>;

const answers = fc.oneof(
  fc.record(
    { type: fc.constant('approve'), input: json, answer: json, sticky: flag },
    { requiredKeys: ['type'] },
  ),
  fc.record({ type: fc.constant('reject'), reason: text, sticky: flag }, { requiredKeys: ['type'] }),
  fc.record(
    { type: fc.constant('result'), output: json, isError: flag },
    { requiredKeys: ['type', 'output'] },
  ),
  fc.record({ type: fc.constant('happened'), output: json }),
  fc.record({ type: fc.constant('failed'), reason: text }),
  fc.record({ type: fc.constant('retry'), force: flag }, { requiredKeys: ['type'] }),
  fc.record({ type: fc.constantFrom('continue', 'step') }),
) as fc.Arbitrary<Answer>;

const opens = fc.oneof(
  fc.record(
    {
      kind: fc.constantFrom('approval', 'result', 'doubt', 'review'),
      callId: text,
      runId: text,
      digest: text,
    },
    { requiredKeys: ['kind', 'callId'] },
  ),
  fc.record({ kind: fc.constant('pause'), runId: text }, { requiredKeys: ['kind'] }),
) as fc.Arbitrary<OpenReference>;

const call = { callId: 'call_1', runId: 'run_1', digest: 'd1' };

describe('the command for an answer', () => {
  test('is of the type that fits the kind, for its call and run; an answer that fits no such kind is refused', () => {
    fc.assert(
      fc.property(opens, answers, fc.option(text, { nil: undefined }), (open, answer, by) => {
        const type = FITTING[open.kind][answer.type];
        const make = () => commandFor(open, answer, { by });
        if (type === undefined) {
          const fitting = Object.keys(FITTING[open.kind]).join(', ');
          expect(make).toThrow(`"${answer.type}". Give one of: ${fitting}.`);
          expect(make).toThrow(expect.objectContaining({ code: 'input-invalid' }));
          return;
        }
        const command = make();
        expect(command.type).toBe(type);
        expect(command.by).toBe(by);
        expect(command.runId).toBe(open.runId);
        if ('callId' in open) expect(command).toHaveProperty('callId', open.callId);
        else expect(command).not.toHaveProperty('callId');
        const isBound = 'digest' in open && type !== 'resolve';
        expect('digest' in command ? command.digest : undefined).toBe(isBound ? open.digest : undefined);
      }),
    );
  });

  test('has no member without a value', () => {
    fc.assert(
      fc.property(opens, answers, (open, answer) => {
        fc.pre(FITTING[open.kind][answer.type] !== undefined);
        const command = commandFor(open, answer, { by: undefined });
        expect(Object.values(command)).not.toContain(undefined);
      }),
    );
  });

  test.each<[Open['kind'], Answer, object]>([
    ['approval', { type: 'approve', input: { a: 1 } }, { type: 'approve', ...call, input: { a: 1 } }],
    ['approval', { type: 'approve', sticky: true }, { type: 'approve', ...call, sticky: true }],
    ['approval', { type: 'reject', reason: 'no' }, { type: 'reject', ...call, reason: 'no' }],
    ['approval', { type: 'result', output: 5 }, { type: 'answer', ...call, output: 5 }],
    ['result', { type: 'result', output: 5, isError: false }, { type: 'answer', ...call, output: 5 }],
    [
      'result',
      { type: 'result', output: 5, isError: true },
      { type: 'answer', ...call, output: 5, isError: true },
    ],
  ])('to an open %s, %j, has what the answer says', (kind, answer, command) => {
    if (kind === 'pause' || kind === 'sign-in') throw new Error(`a ${kind} has no call`);
    expect(commandFor({ kind, ...call }, answer)).toEqual(command);
  });

  test.each<[Answer, object]>([
    [
      { type: 'happened', output: null },
      { happened: true, output: null },
    ],
    [{ type: 'failed', reason: 'no' }, { failed: 'no' }],
    [{ type: 'retry' }, { retry: true }],
    [{ type: 'retry', force: false }, { retry: true }],
    [
      { type: 'retry', force: true },
      { retry: true, force: true },
    ],
  ])('that resolves a doubt with %j names no digest', (answer, members) => {
    const { digest: _, ...place } = call;
    expect(commandFor({ kind: 'doubt', ...call }, answer)).toEqual({ type: 'resolve', ...place, ...members });
  });
});

/** JSON as clients send it: members of answers with right and wrong values, among others. */
const forms = fc.oneof(
  json,
  fc.dictionary(
    fc.constantFrom(
      'approved',
      'input',
      'output',
      'reason',
      'sticky',
      'isError',
      'happened',
      'failed',
      'retry',
      'force',
      'other',
    ),
    fc.oneof(flag, text, json),
  ),
);
const kinds = fc.constantFrom<Open['kind']>('approval', 'result', 'doubt', 'pause');

describe('the JSON form of an answer', () => {
  test('read for a kind gives an answer that fits it, or none', () => {
    fc.assert(
      fc.property(kinds, forms, (kind, form) => {
        const answer = readAnswer(kind, form);
        if (answer !== null) expect(FITTING[kind]).toHaveProperty(answer.type);
      }),
    );
  });

  test('never forces a retry, and means the same with members that no answer has', () => {
    fc.assert(
      fc.property(kinds, forms, json, (kind, form, more) => {
        const answer = readAnswer(kind, form);
        if (answer?.type === 'retry') expect(answer.force).toBeUndefined();
        if (isJsonObject(form)) expect(readAnswer(kind, { ...form, more })).toEqual(answer);
      }),
    );
  });

  test.each(
    Object.entries(ANSWER_EXAMPLES).flatMap(([kind, examples]) =>
      examples.map(example => [kind as Open['kind'], example] as const),
    ),
  )('that is an example for the kind %s, %j, is read', (kind, example) => {
    expect(readAnswer(kind, example)).not.toBeNull();
  });

  test.each<[Open['kind'], JsonValue, Answer | null]>([
    [
      'approval',
      { approved: true, input: { a: 1 }, sticky: true },
      { type: 'approve', input: { a: 1 }, sticky: true },
    ],
    ['approval', { approved: false, reason: 'no' }, { type: 'reject', reason: 'no' }],
    ['approval', { approved: false, output: 5 }, { type: 'reject' }],
    ['approval', { approved: true, output: 5 }, { type: 'result', output: 5 }],
    ['approval', { output: 5, isError: true }, { type: 'result', output: 5, isError: true }],
    ['approval', { approved: 'yes', output: 5 }, null],
    ['approval', { happened: true }, null],
    ['result', { output: null }, { type: 'result', output: null }],
    ['result', { approved: true }, null],
    ['doubt', { happened: true }, { type: 'happened', output: null }],
    ['doubt', { failed: '' }, { type: 'failed', reason: '' }],
    ['doubt', { retry: 'yes' }, null],
    ['pause', { approved: true }, { type: 'continue' }],
    ['pause', { approved: false }, null],
    ['pause', 'yes', null],
  ])('of the kind %s: %j is %j', (kind, form, answer) => {
    expect(readAnswer(kind, form)).toEqual(answer);
  });
});
