/** Every route of the server: `npm run docs` writes the table in docs/server.md from it. */
import * as z from 'zod';
import { RIGHTS, type Right, ROLES, rightOf } from '../access/role.ts';
import { agentSummarySchema, agentViewSchema } from '../protocol/agent-view.ts';
import type { Labels } from '../protocol/listing/label.ts';
import { fields, optional } from './fields.ts';
import type { RouteAnswer, RouteTable } from './route.ts';
import { bulkBody, bulkSchema, forkBody } from './runs/commands/command-routes.ts';
import { forCommands, listQuery, sessionBody, startBody } from './runs/commands/request-bodies.ts';
import { exploreQuery, exploreRunQuery } from './runs/explore-route.ts';
import { inboxQuery, inboxSchema } from './runs/inbox/read-inbox.ts';
import { openedItemSchema } from './runs/inbox/read-item.ts';
import { eventsQuery } from './runs/live/event-routes.ts';
import {
  entriesQuery,
  entriesSchema,
  resultPageSchema,
  resultQuery,
  stateQuery,
  stateSchema,
} from './runs/reading/journal-routes.ts';
import { foldedQuery, foldedSchema } from './runs/reading/read-folded.ts';
import { notesQuery, notesSchema } from './runs/reading/read-notes.ts';
import { threadQuery, threadsQuery, threadsSchema, threadViewSchema } from './runs/reading/read-threads.ts';
import { totalsQuery, totalsSchema } from './runs/reading/read-totals.ts';
import { regressionsQuery, regressionsSchema } from './runs/regressions/read-regressions.ts';
import { sumsQuery, sumsSchema } from './runs/regressions/sum-regressions.ts';
import { runSummarySchema, runViewSchema } from './runs/run-view.ts';
import { exportQuery, shareQuery } from './runs/sharing/share-routes.ts';
import { STORY_ROUTES } from './story/story-table.ts';

const NOTHING: RouteAnswer = { status: 204 };
const JSON_TEXT: RouteAnswer = { description: 'The JSON text', text: ['text/plain'] };

const LAST_EVENT = { name: 'Last-Event-ID', in: 'header' } as const;
const SEQ = { type: 'integer', minimum: 0 } as const;

const listSchema = z.object({
  runs: z.array(runSummarySchema),
  next: optional(
    z.string(),
    'The cursor of the next page, for the same filter and order. Absent at the end.',
  ),
  damaged: optional(z.array(z.string()), 'One error message for each run record that cannot be read.'),
});
const deletedQuery = fields({
  label: z
    .array(z.string())
    .min(1)
    .meta({ description: 'NAME=VALUE; repeatable. The runs have all of these labels.' }),
});
const deletedSchema = z.object({
  deleted: z.array(z.string()).meta({ description: 'The ids of the runs.' }),
});
const callerSchema = z.object({ name: z.string(), role: z.enum(ROLES) });
const labelsSchema = z
  .custom<Labels>()
  .meta({ description: 'Strings by name: the caller sees only runs with these.', type: 'object' });

export const OPEN_ROUTES = {
  'GET /healthz': {
    summary: 'Check whether the server is up.',
    right: ['read', 'generate'],
    open: true,
    answer: z.object({ ok: z.literal(true), version: z.string() }),
  },
  'GET /readyz': {
    summary: 'Check whether the server takes work and its store answers.',
    right: ['read', 'generate'],
    open: true,
    answer: z.object({ ok: z.literal(true) }),
  },
  'POST /session': {
    summary: 'Sign in: exchange the token for a session cookie.',
    right: 'read',
    open: true,
    body: sessionBody,
    answer: NOTHING,
  },
  'GET /sign-in/callback': {
    summary: 'Where the browser returns to from the authorization server of a tool server.',
    right: ['read', 'generate'],
    open: true,
    query: fields({
      state: z.string().max(1_000),
      code: z.exactOptional(z.string().max(10_000)),
      iss: z.exactOptional(z.string().max(2_000)),
      error: z.exactOptional(z.string().max(1_000)),
    }),
    answer: { text: ['text/plain'] },
  },
  'DELETE /session': { summary: 'Sign out.', right: 'read', open: true, answer: NOTHING },
} as const satisfies RouteTable;

/** The routes of the page. Its views at paths of the API are for requests that accept HTML. */
export const PAGE_ROUTES = {
  'GET /': { summary: 'The page.', open: true },
  'GET /compare/:pair': { summary: 'The page, on two runs.', open: true },
  'GET /sessions/:id': { summary: 'The page, on a session.', open: true },
  'GET /assets/*': { summary: 'The files of the page.', open: true },
} as const satisfies RouteTable;

export const SERVER_ROUTES = {
  'GET /session': { summary: 'Read the signed-in caller: name and role.', answer: callerSchema },
  'GET /metrics': {
    summary: 'Read the metrics of all runs, in the text format of Prometheus. Not for tokens with labels.',
    right: 'inspect',
    answer: { text: ['text/plain'] },
  },
} as const satisfies RouteTable;

export const RUNS_ROUTES = {
  'GET /openapi.json': {
    summary: 'Read this description of the runs API.',
    answer: z.looseObject({ openapi: z.string() }),
  },
  'GET /me': {
    summary: 'Read the caller: name, role and what it may do, groups, labels.',
    answer: callerSchema.extend({
      rights: z.array(z.enum(RIGHTS)).meta({ description: 'What the role may do.' }),
      can: z.string().meta({ description: 'The same, as a sentence.' }),
      groups: z.array(z.string()),
      labels: labelsSchema,
    }),
  },
  'GET /agents': {
    summary: 'List the agents that can start runs.',
    answer: z.object({ agents: z.array(agentSummarySchema) }),
  },
  'GET /agents/:name': {
    summary: 'Read an agent: its instructions, its tools and their schemas, and its limits.',
    right: 'inspect',
    answer: agentViewSchema,
  },
  'GET /agents/:name/explore': {
    summary: 'Walk every path of an agent’s runs in a separate process. Executes nothing.',
    description:
      'Server-sent events: `progress` ({ states }), then `result` ({ report }, as `agentchart explore --json`) or `failed` ({ message }). One at a time.',
    right: 'inspect',
    query: exploreQuery,
    streams: true,
  },
  'GET /runs': {
    summary: 'List the runs, newest first.',
    query: listQuery,
    tagged: true,
    answer: listSchema,
  },
  'POST /runs': {
    summary: 'Start a run. This server drives it.',
    right: 'start',
    body: startBody,
    answer: { status: 201, description: 'The run', json: runViewSchema },
  },
  'DELETE /runs': {
    summary:
      'Delete all runs with some labels, such as all data of a user, with what continues them. Notes are kept by one label: exactly that label deletes them too; other labels, or more, do not, and those of a token count. What is driven is cancelled first.',
    query: deletedQuery,
    answer: deletedSchema,
  },
  'GET /runs/:id': {
    summary: 'Read the state of a run, and why it is in that state.',
    tagged: true,
    answer: runViewSchema,
  },
  'DELETE /runs/:id': {
    summary:
      'Delete a run and the runs of its sub-agents. 409 while one of them is driven or another run continues it.',
    answer: NOTHING,
  },
  'GET /runs/:id/events': {
    summary: 'Stream the journal and live output as server-sent events, until the run ends.',
    description:
      'First a `text` event with the text of the running turn so far, if any. Then one `journal` event per entry (its id is the seq), `delta` events for live output that is not journaled, and `end` when the run has ended. To resume, send the last id as `Last-Event-ID` or `after`.',
    parameters: [
      { name: 'after', in: 'query', schema: SEQ },
      { ...LAST_EVENT, schema: SEQ },
    ],
    streams: true,
  },
  'GET /runs/:id/entries': {
    summary: 'Read a page of the journal: forward from an entry, or the last entries before one.',
    query: entriesQuery,
    tagged: true,
    answer: entriesSchema,
  },
  'GET /runs/:id/entries/:seq/requests': {
    summary:
      "Download the requests and replies of the model call that ended with an entry, for agents with `capture: 'requests'`: a list of { path, request, status, reply }.",
    right: 'inspect',
    parameters: [{ name: 'seq', in: 'path', schema: { type: 'integer', minimum: 1 } }],
    answer: JSON_TEXT,
  },
  'GET /runs/:id/state': {
    summary: 'Read the state of a run after an entry.',
    query: stateQuery,
    tagged: true,
    answer: stateSchema,
  },
  'GET /runs/:id/results/:call': {
    summary:
      "Read one page of a result's JSON. The transcript holds only the beginning and end of a large result.",
    query: resultQuery,
    answer: resultPageSchema,
  },
  'GET /runs/:id/results/:call/download': {
    summary: "Download a result's full JSON as text.",
    answer: JSON_TEXT,
  },
  'GET /runs/:id/explore': {
    summary: 'Walk what may still happen to a run after an entry. Executes nothing.',
    description: 'As `/agents/{name}/explore`; the report is that of `agentchart explore RUN --json`.',
    right: 'inspect',
    query: exploreRunQuery,
    streams: true,
  },
  'GET /runs/:id/export': {
    summary:
      'Download a run as agentchart export writes it: JSON, then a line for each part of a large result.',
    query: exportQuery,
    answer: { description: 'The run, or a test of it', text: ['application/x-ndjson', 'text/plain'] },
  },
  'GET /runs/:id/share': {
    summary: 'Download one HTML file that plays the run without a server.',
    query: shareQuery,
    answer: { description: 'The file', text: ['text/html'] },
  },
  'GET /threads': {
    summary: 'List the threads by their latest runs, newest first.',
    query: threadsQuery,
    tagged: true,
    answer: threadsSchema,
  },
  'GET /threads/:id': {
    summary: 'Read a thread: its messages, its runs, and what they spent.',
    query: threadQuery,
    tagged: true,
    answer: threadViewSchema,
  },
  'DELETE /threads/:id': {
    summary:
      'Delete a thread: all its runs, with their forks and sub-agents, and what continues them. What is driven is cancelled first.',
    query: threadQuery,
    answer: deletedSchema,
  },
  'GET /totals': {
    summary:
      'Add up the runs of a filter: how many, and what they spent, by status, agent, model, error, label and time.',
    query: totalsQuery,
    tagged: true,
    answer: totalsSchema,
  },
  'GET /folded': {
    summary:
      'Read what rows of a folded list stand for: how many runs of sub-agents, and the runs of the thread or session.',
    query: foldedQuery,
    answer: foldedSchema,
  },
  'GET /inbox': {
    summary:
      'List every open decision, doubt and sign-in of all runs: each once, with the topmost run of its family.',
    query: inboxQuery,
    tagged: true,
    answer: inboxSchema,
  },
  'GET /inbox/:run/:call': {
    summary:
      'Read one of them, with what came before it, and with equal calls and decisions in other runs that the caller sees.',
    tagged: true,
    answer: openedItemSchema,
  },
  'GET /notes': {
    summary: 'Read what models have noted under a label with `notes()`: files with their texts.',
    query: notesQuery,
    tagged: true,
    answer: notesSchema,
  },
  'GET /regressions': {
    summary:
      'List the runs that `agentchart regress` played, newest first, with what differs from their recordings.',
    query: regressionsQuery,
    tagged: true,
    answer: regressionsSchema,
  },
  'GET /regressions/sums': {
    summary:
      'Add up the runs that `agentchart regress` played, the newest 10,000 of each side: the figures of those that match, and which differences the baseline shows as often.',
    query: sumsQuery,
    tagged: true,
    answer: sumsSchema,
  },
  'GET /events': {
    summary: 'Follow several runs, and the changes of all, on one stream of server-sent events.',
    description:
      'The events of `/runs/{id}/events`, with `runId` in each data; the id of an entry encodes the position in every run. `gone`: there is no such run. With `summaries=1` also: `ready` (later changes will be sent: read the lists again), `summary` (a run as in `GET /runs`), `inbox` ({ runId, items }: all items of this run, which replace the earlier ones) and `removed` (a run was deleted). To resume, send the last id as `Last-Event-ID`.',
    query: eventsQuery,
    parameters: [{ ...LAST_EVENT, schema: { type: 'string' } }],
    streams: true,
  },
  'POST /runs/bulk': {
    summary: 'Submit one command to many runs, and read the outcome for each run.',
    body: bulkBody,
    answer: bulkSchema,
  },
  'POST /runs/:id/sign-in/begin': {
    summary:
      'Begin the sign-in at a tool server that a run waits for: open `url` in a browser. Then the runs that wait for it continue.',
    body: fields({ server: z.string().min(1).max(500) }),
    answer: z.object({
      url: z.string(),
      expiresAt: z.number().meta({ description: 'ms since the epoch' }),
    }),
  },
  'POST /runs/:id/fork': {
    summary:
      'Start a run with a copy of the journal up to an entry, and with changes. This server drives it.',
    body: forkBody,
    answer: { status: 201, description: 'The fork', json: runViewSchema },
  },
  ...forCommands((name, { summary, body }) => {
    // What a list has, and what is rejected, is checked with the command.
    return { summary, right: rightsFor(name), body, answer: runViewSchema };
  }),
  ...STORY_ROUTES,
} as const satisfies RouteTable;

function rightsFor(name: Parameters<Parameters<typeof forCommands>[0]>[0]): readonly Right[] {
  if (name === 'commands') return ['send', 'result', 'decide'];
  return name === 'reject' ? ['result', 'decide'] : [rightOf(name)];
}

/** The route that has a WebSocket. */
export const SOCKET_PATH = '/v1/responses';

/** The routes below `/v1`. Their protocols validate what they take. */
export const V1_ROUTES = {
  'GET /v1/models': { summary: 'List the models that requests may name.' },
  'GET /v1/models/:id': { summary: 'Read a model.' },
  'GET /v1/responses': { summary: 'Create responses over a WebSocket.', right: 'generate' },
  'POST /v1/responses': { summary: 'Create a response.', streams: true },
  'POST /v1/responses/input_tokens': { summary: 'Count the input tokens of a request.' },
  'POST /v1/responses/compact': { summary: 'Replace a conversation by a summary.' },
  'GET /v1/responses/:id': {
    summary: 'Read a response, or with `?stream=true` its events.',
    streams: 'asked',
  },
  'POST /v1/responses/:id/cancel': { summary: 'Cancel a background response.' },
  'DELETE /v1/responses/:id': { summary: 'Delete a response.' },
  'GET /v1/responses/:id/input_items': { summary: 'List the items of its request.' },
  'POST /v1/conversations': { summary: 'Create a conversation.' },
  'GET /v1/conversations/:id': { summary: 'Read a conversation.' },
  'POST /v1/conversations/:id': { summary: 'Replace the metadata of a conversation.' },
  'DELETE /v1/conversations/:id': { summary: 'Delete a conversation.' },
  'GET /v1/conversations/:id/items': { summary: 'List the items of a conversation.' },
  'POST /v1/conversations/:id/items': { summary: 'Add items to a conversation.' },
  'GET /v1/conversations/:id/items/:item': { summary: 'Read an item.' },
  'DELETE /v1/conversations/:id/items/:item': { summary: 'Delete an item.' },
  'POST /v1/chat/completions': { summary: 'Create a chat completion.', streams: true },
  'POST /v1/messages': { summary: 'Create a message.', streams: true },
  'POST /v1/messages/count_tokens': { summary: 'Count the input tokens of a request.' },
} as const satisfies RouteTable;
