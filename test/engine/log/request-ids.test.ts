import { expect, test } from 'vitest';
import { RequestIds } from '../../../engine/log/request-ids.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { userMessage } from '../../../protocol/message.ts';

const say = (requestId: string): RunEvent => ({
  type: 'message.received',
  at: 1,
  items: [userMessage('hello')],
  requestId,
});

test('a request whose id is in the journal is refused, and one that came 2,000 requests ago is forgotten', () => {
  const ids = new RequestIds();
  expect(ids.findRepeated([say('first')])).toBeNull();
  ids.add(say('first'));
  expect(ids.findRepeated([say('new'), say('first')])).toMatchObject({ accepted: false, index: 1 });
  for (let request = 1; request < 2_000; request += 1) ids.add(say(`request ${request}`));
  expect(ids.findRepeated([say('first')])).not.toBeNull();
  ids.add(say('last'));
  expect(ids.findRepeated([say('first')])).toBeNull();
  expect(ids.findRepeated([say('last')])).not.toBeNull();
});
