import * as z from 'zod';
import { ANSWER_EXAMPLES } from '../../protocol/open/answer-form.ts';
import { fields, openFields, optional } from '../fields.ts';
import type { RouteTable } from '../route.ts';
import { sendBody, startBody } from '../runs/commands/request-bodies.ts';

export const LINES = 'application/x-ndjson';

const MOST_ANSWERS = 100;

const afterQuery = fields({
  after: optional(z.coerce.number().int().min(0), 'The seq of the last line that you have.'),
});
const followQuery = fields({
  ...afterQuery.shape,
  follow: optional(z.enum(['1', '0']), '1: until the run has ended. Default: until it settles.'),
});
const examples = Object.entries(ANSWER_EXAMPLES).map(
  ([kind, each]) => `${kind}: ${each.map(one => JSON.stringify(one)).join(' or ')}`,
);
const answerSchema = openFields({
  id: z.string().min(1).max(2_000).meta({ description: 'The id of what is open.' }),
}).meta({ description: `Also the answer, by the kind of what is open: ${examples.join('; ')}.` });
const continueBody = z.union(
  [sendBody, fields({ answers: z.array(answerSchema).min(1).max(MOST_ANSWERS) })],
  'expected { message } or { answers: [{ id, … }] }',
);

const STORY = { streams: true, answer: { description: 'The lines of the story', text: [LINES] } } as const;

export const STORY_ROUTES = {
  'POST /story': {
    summary: 'Start a run, and stream its story as lines of JSON until it settles.',
    right: 'start',
    body: startBody,
    ...STORY,
  },
  'GET /story/:id': {
    summary: 'Stream the story of a run as lines of JSON, until it settles.',
    query: followQuery,
    ...STORY,
  },
  'POST /story/:id': {
    summary: 'Send a message to a run or answer what it waits for, and stream what follows until it settles.',
    right: ['send', 'result', 'decide'],
    query: afterQuery,
    body: continueBody,
    ...STORY,
  },
} as const satisfies RouteTable;
