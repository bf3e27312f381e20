import fc from 'fast-check';
import { expect, it } from 'vitest';
import { chatBody } from '../../../server/chat-completions/chat-request.ts';
import { readGiven } from '../../../server/fields.ts';
import { messageBody } from '../../../server/messages/message-request.ts';
import { createBody } from '../../../server/responses/request-body.ts';
import { randomCases } from '../../support/sample.ts';

const BODIES = { chatBody, messageBody, createBody };
const members = [...new Set(Object.values(BODIES).flatMap(({ shape }) => Object.keys(shape))), 'unknown'];
const value = fc.oneof(
  fc.constantFrom(null, true, false, 'auto', 'text', 1, 0.5, -1, {}, [], { type: 'text' }),
  fc.constant([{ role: 'user', content: 'hi' }]),
);
const body = fc.oneof(
  fc.dictionary(fc.constantFrom(...members), value, { maxKeys: 6 }),
  fc.constantFrom(null, 'text', [], 1),
);

it.each(Object.entries(BODIES))(
  '%s is read the same when only the given members are looked at',
  (_, schema) => {
    // More combinations than get a schema of their own.
    const given = readGiven(schema);
    fc.assert(
      fc.property(body, value => {
        const whole = schema.safeParse(value);
        const read = given.safeParse(value);
        expect(read.data).toEqual(whole.data);
        expect(read.error?.issues).toEqual(whole.error?.issues);
      }),
      { numRuns: randomCases(300) },
    );
  },
);
