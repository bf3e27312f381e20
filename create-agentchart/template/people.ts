import { createHash } from 'node:crypto';
import type { Authorize } from 'agentchart/server';
import * as z from 'zod';

/** Whoever has such a key is this person. In your own application, ask your sign-in instead. */
const peopleSchema = z.record(
  z.string().min(16),
  z.object({
    name: z.string(),
    role: z.enum(['operator', 'approver', 'requester', 'viewer']),
    groups: z.array(z.string()).default([]),
  }),
);

/** Their keys are not secret: the server listens on this machine only while it knows these people alone. */
const EXAMPLES = {
  'example-key-of-ann': { name: 'ann', role: 'requester', groups: [] },
  'example-key-of-mia': { name: 'mia', role: 'approver', groups: ['managers'] },
};

export const hasOnlyExamples = process.env.PEOPLE === undefined;

const people = new Map(
  Object.entries(peopleSchema.parse(JSON.parse(process.env.PEOPLE ?? JSON.stringify(EXAMPLES)))).map(
    ([key, person]) => [digest(key), person],
  ),
);

function digest(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

/** Who sends a request: the person of its bearer token, or `null`, which is answered with 401. */
export const authorize: Authorize = request => {
  const key = /^Bearer (.+)$/.exec(request.headers.get('authorization') ?? '')?.[1];
  return people.get(digest(key ?? '')) ?? null;
};
