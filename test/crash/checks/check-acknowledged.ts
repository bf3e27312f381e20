import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { canonicalJson, type JsonValue } from '../../../protocol/json.ts';
import type { Acknowledged } from '../outside.ts';
import { type Evidence, resultOf } from './check-calls.ts';

/** Returns the faults if what a person saw or got acknowledged is not exactly once in the journal, or had another effect. */
export function checkAcknowledged(acknowledged: Acknowledged, run: Evidence): string[] {
  const { events, acts, state } = run;
  const expect = (holds: boolean, fault: string) =>
    holds ? [] : [`${JSON.stringify(acknowledged)}: ${fault}`];
  const count = (type: RunEvent['type'], callId: string) =>
    events.filter(event => event.type === type && 'callId' in event && event.callId === callId).length;
  switch (acknowledged.type) {
    case 'killed':
      return [];
    case 'approved': {
      const happened = acts.filter(act => act.callId === acknowledged.callId);
      const hasInput = happened.every(
        act => acknowledged.input === undefined || isEqual(act.input, acknowledged.input),
      );
      return [
        ...expect(count('approval.decided', acknowledged.callId) === 1, 'is not in the journal once'),
        ...expect(happened.length > 0, 'and it never happened'),
        ...expect(hasInput, `and it happened with ${JSON.stringify(happened.map(({ input }) => input))}`),
      ];
    }
    case 'rejected':
      return [
        ...expect(count('approval.decided', acknowledged.callId) === 1, 'is not in the journal once'),
        ...expect(!acts.some(act => act.callId === acknowledged.callId), 'and it happened'),
        ...expect(resultOf(acknowledged.callId, run)?.isError === true, 'and its result is no error'),
      ];
    case 'answered': {
      const journaled =
        count('approval.decided', acknowledged.callId) + count('result.received', acknowledged.callId);
      const output = resultOf(acknowledged.callId, run)?.output;
      const isTaken = output !== undefined && isEqual(output, acknowledged.output);
      return [
        ...expect(journaled === 1, 'is not in the journal once'),
        ...expect(isTaken, `and its result is ${JSON.stringify(output)}`),
      ];
    }
    case 'told': {
      const { callId, keys } = acknowledged;
      const told = events.filter(
        event =>
          event.type === 'question.answered' &&
          event.callId === callId &&
          keys.every(key => Object.hasOwn(event.answers, key)),
      );
      return expect(told.length === 1, `is in the journal ${told.length} times`);
    }
    case 'reviewed': {
      const { callId, by, reason, answer } = acknowledged;
      const decided = events.filter(
        event => event.type === 'review.decided' && event.reviewId === callId && event.by === by,
      );
      const words = reason ?? answer;
      const read = words === undefined ? 1 : countNotes(state.context.transcript, words);
      return [
        ...expect(decided.length === 1, 'is not in the journal once'),
        ...expect(read === 1, `is in the transcript ${read} times`),
      ];
    }
    case 'sent': {
      const has = (value: unknown) => JSON.stringify(value).includes(acknowledged.text);
      const journaled = events.filter(event => event.type === 'message.received' && has(event.items)).length;
      const read = state.context.transcript.filter(
        item => item.type === 'message' && item.role === 'user' && has(item.content),
      ).length;
      return [
        ...expect(journaled === 1, `is in the journal ${journaled} times`),
        ...expect(read === 1, `is in the transcript ${read} times`),
      ];
    }
    case 'asked again':
      return expect(false, 'after it was done');
    case 'steered':
      return expect(
        events.filter(({ type }) => type === acknowledged.by).length === 1,
        'is not in the journal once',
      );
    case 'doubted':
      return [
        ...expect(acknowledged.reason !== '', 'and nobody said why'),
        ...expect(count('tool.started', acknowledged.callId) > 0, 'and it was never started'),
        ...expect(count('doubt.resolved', acknowledged.callId) > 0, 'and nobody resolved it'),
      ];
    case 'resolved': {
      const result = resultOf(acknowledged.callId, run);
      const isAsResolved = (result?.isError === true) === (acknowledged.as === 'failed');
      return [
        ...expect(count('doubt.resolved', acknowledged.callId) > 0, 'is not in the journal'),
        ...expect(isAsResolved, `and its result is ${JSON.stringify(result)}`),
      ];
    }
  }
}

/** How many notes to the model have these words. */
function countNotes(transcript: readonly Item[], words: string): number {
  const isNote = (item: Item) => item.type === 'message' && item.role === 'developer';
  return transcript.filter(item => isNote(item) && JSON.stringify(item).includes(words)).length;
}

function isEqual(left: JsonValue, right: JsonValue): boolean {
  return canonicalJson(left) === canonicalJson(right);
}
