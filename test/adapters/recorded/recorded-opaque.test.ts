import { describe, expect, test } from 'vitest';
import { jsonIn, nonEmpty, objectOf } from '../../../adapters/turn/json-access.ts';
import type { Item } from '../../../protocol/item.ts';
import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { playRecorded } from '../../support/adapters/play-recorded.ts';
import {
  isStreamed,
  type RecordedTurn,
  readRecording,
  recordedTurns,
  recordingsArePresent,
} from '../../support/adapters/recordings.ts';
import { request, result } from '../../support/adapters/requests.ts';

const answers = recordedTurns().filter(({ status, expect: { error } }) => status === 200 && !error);

test.skipIf(!recordingsArePresent)('recordings are available', () => {
  expect(answers.length).toBeGreaterThan(0);
});

describe.each(answers)('recorded turn $name', recorded => {
  test('sends back unchanged what the provider requires unchanged', async () => {
    const { turn } = await playRecorded(recorded, {}, request('hi'));
    const results = (turn?.toolCalls ?? []).map(({ callId }) => result(callId, 'done'));
    const items = [...(await pausedBefore(recorded)), ...(turn?.items ?? []), ...results];
    const modelRequest = request([userMessage('hi'), ...items, userMessage('go on')]);
    const sent = JSON.stringify(
      (await playRecorded(recorded, {}, JSON.parse(JSON.stringify(modelRequest)))).sent,
    );
    for (const text of opaqueTextsIn(recorded)) {
      expect(sent.includes(JSON.stringify(text).slice(1, -1)), text).toBe(true);
    }
  });
});

/** The items of the paused turn that this turn continues directly. */
async function pausedBefore(recorded: RecordedTurn): Promise<readonly Item[]> {
  const before = answers[answers.indexOf(recorded) - 1];
  if (before?.case !== recorded.case || before.expect.finishReason !== 'pause') return [];
  return (await playRecorded(before, {}, request('hi'))).turn?.items ?? [];
}

/**
 * The signatures and encrypted texts of a recorded response; if a stream repeats an item, only the finished
 * one counts.
 */
function opaqueTextsIn(recorded: RecordedTurn): string[] {
  const text = readRecording(recorded.response).toString('utf8');
  const events = isStreamed(recorded)
    ? text.split('\n').flatMap(line => jsonIn(line.replace(/^data: ?/, '')) ?? [])
    : [JSON.parse(text)];
  const items = events.filter(event => objectOf(event).type === 'response.output_item.done');
  return (items.length > 0 ? items : events).flatMap(event => opaqueTexts(event));
}

function opaqueTexts(value: JsonValue): string[] {
  if (Array.isArray(value)) return value.flatMap(opaqueTexts);
  if (!isJsonObject(value)) return [];
  const encrypted = value.type === 'redacted_thinking' || value.type === 'reasoning.encrypted';
  return Object.entries(value).flatMap(([name, member]) =>
    OPAQUE_MEMBERS.has(name) || (encrypted && name === 'data')
      ? (nonEmpty(member) ?? [])
      : opaqueTexts(member),
  );
}

const OPAQUE_MEMBERS: ReadonlySet<string> = new Set(['signature', 'thoughtSignature', 'encrypted_content']);
