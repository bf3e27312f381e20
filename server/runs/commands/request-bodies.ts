import * as z from 'zod';
import { limitsSchema, runParamsSchema } from '../../../protocol/config.ts';
import { type Breakpoint, breakpointsSchema } from '../../../protocol/debugger/breakpoint.ts';
import { itemSchema } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { listFilterSchema, MOST_LISTED } from '../../../protocol/listing/run-list.ts';

const MOST_ITEMS = 1_000;

const json = z
  .custom<JsonValue>(value => value !== undefined, 'expected a JSON value')
  .meta({ description: 'Any JSON value.' });
const callId = z.string().min(1).max(500);
const by = z.exactOptional(
  z.string().min(1).max(200).meta({ description: 'Who submits this; recorded in the journal.' }),
);
const requestId = z.exactOptional(
  z.string().min(1).max(64).meta({
    description:
      'An id that you choose for this command. After a lost response, send the command again with the same id: it is carried out once and gets the first answer.',
  }),
);
/** The optional members of every command. */
const sender = { by, requestId };
const digest = z.exactOptional(
  z
    .string()
    .max(200)
    .meta({ description: 'The digest of the call as it was shown. The command is refused if it differs.' }),
);
const sticky = z.exactOptional(
  z.boolean().meta({ description: 'Also applies to later calls of the same tool.' }),
);
const input = z.union(
  [z.string().min(1), z.array(itemSchema).min(1).max(MOST_ITEMS)],
  `expected a non-empty string, or 1 to ${MOST_ITEMS} items`,
);

const { turns, toolCalls, tokens, cost, activeMs, repeatedFailures } = limitsSchema.shape;

export const startBody = z.strictObject({
  agent: z.exactOptional(z.string().meta({ description: 'Optional if the server has one agent.' })),
  input,
  continues: z.exactOptional(
    z.string().min(1).meta({ description: 'The id of an ended run whose transcript the new run continues.' }),
  ),
  limits: z.exactOptional(
    z.strictObject({
      turns: z.exactOptional(turns),
      toolCalls: z.exactOptional(toolCalls),
      tokens,
      cost,
      activeMs,
      repeatedFailures,
    }),
  ),
  labels: z.exactOptional(
    z
      .custom<JsonValue>(value => value !== undefined)
      .meta({ description: 'Strings by name, at most 16, such as { "user": "7" }.', type: 'object' }),
  ),
  title: z.exactOptional(z.string().meta({ description: 'Default: the first line of the input.' })),
  stream: z.exactOptional(z.boolean()),
  runContext: z.exactOptional(json.meta({ description: 'The run context, for an agent that requires one.' })),
  requestId,
});

export const approveBody = z.strictObject({
  callId,
  input: z.exactOptional(json),
  digest,
  sticky,
  ...sender,
});

export const rejectBody = z.strictObject({
  callId,
  reason: z.exactOptional(z.string().meta({ description: 'Shown to the model.' })),
  digest,
  sticky,
  ...sender,
});

export const answerBody = z.strictObject({
  callId,
  output: json,
  isError: z.exactOptional(z.boolean()),
  ...sender,
});

export const resolveBody = z.union(
  [
    z.strictObject({ callId, retry: z.literal(true), force: z.exactOptional(z.boolean()), ...sender }),
    z.strictObject({ callId, happened: z.literal(true), output: json, ...sender }),
    z.strictObject({ callId, failed: z.string(), ...sender }),
  ],
  'expected callId and exactly one of { retry: true, force? }, { happened: true, output } or { failed: "reason" }',
);

export const sendBody = z.strictObject({ message: input, ...sender });

export const byBody = z.strictObject(sender);

export const breakpointsBody = z.strictObject({
  breakpoints: z
    .custom<Breakpoint[]>(value => breakpointsSchema.safeParse(value).success, {
      error: ({ input }) =>
        `expected a list of breakpoints: ${breakpointsSchema.safeParse(input).error?.issues[0]?.message ?? ''}`,
    })
    .meta({
      type: 'array',
      items: { type: 'object', required: ['id'] },
      description:
        'Replaces all: at most 50 of { id, next?, tool?, turn?, costOver?, where?: { path, op, value }, once? }. The run pauses before an action that matches all members of a breakpoint.',
    }),
  ...sender,
});

const MOST_CALLS = 1_000;

export const editTurnBody = z.strictObject({
  turn: z
    .exactOptional(z.number().int().positive())
    .meta({ description: 'The turn that was reviewed. Default: the latest.' }),
  text: z.exactOptional(z.string()).meta({ description: 'Replaces its text. Default: unchanged.' }),
  calls: z
    .exactOptional(
      z
        .array(
          z.strictObject({ callId: z.exactOptional(callId), name: z.string().min(1).max(500), input: json }),
        )
        .max(MOST_CALLS),
    )
    .meta({ description: 'Replaces its calls. A new call has no callId. Default: unchanged.' }),
  ...sender,
});

export const editCallBody = z.strictObject({ callId, input: json, digest, ...sender });

export const cancelBody = z.strictObject({ reason: z.exactOptional(z.string()), ...sender });

const MOST_COMMANDS = 100;

const typed = <Type extends string>(type: Type) => ({ type: z.literal(type) });
const [retryBody, happenedBody, failedBody] = resolveBody.options;

/** Each command is the body of its route plus its `type`. */
export const commandBody = z.union(
  [
    z.strictObject({ ...typed('approve'), ...approveBody.shape }),
    z.strictObject({ ...typed('reject'), ...rejectBody.shape }),
    z.strictObject({ ...typed('answer'), ...answerBody.shape }),
    z.strictObject({ ...typed('resolve'), ...retryBody.shape }),
    z.strictObject({ ...typed('resolve'), ...happenedBody.shape }),
    z.strictObject({ ...typed('resolve'), ...failedBody.shape }),
    z.strictObject({ ...typed('send'), ...sendBody.shape }),
    z.strictObject({ ...typed('set-params'), params: z.strictObject(runParamsSchema.shape), ...sender }),
    z.strictObject({ ...typed('breakpoints'), ...breakpointsBody.shape }),
    z.strictObject({ ...typed('edit-turn'), ...editTurnBody.shape }),
    z.strictObject({ ...typed('edit-call'), ...editCallBody.shape }),
    z.strictObject({ type: z.enum(['pause', 'unpause', 'step']), ...sender }),
    z.strictObject({ ...typed('cancel'), ...cancelBody.shape }),
  ],
  'expected a "type" (approve, reject, answer, resolve, send, set-params, breakpoints, edit-turn, edit-call, pause, unpause, step or cancel) and its fields',
);

export const commandsBody = z.array(commandBody).min(1).max(MOST_COMMANDS);

export const sessionBody = z.strictObject({ token: z.string().max(10_000) });

const { status, agent, parent, text, order, cursor } = listFilterSchema.shape;
const time = z.exactOptional(z.coerce.number().meta({ description: 'ms since the epoch' }));

/** The query of `GET /runs`. */
export const listQuery = z.strictObject({
  q: z
    .exactOptional(z.string().min(1).max(200))
    .meta({ description: 'A part of the title, in upper or lower case; the same as `text`.' }),
  status,
  agent,
  label: z
    .exactOptional(z.array(z.string()))
    .meta({ description: 'NAME=VALUE; repeatable. The run has all of these labels.' }),
  parent,
  text,
  since: time,
  before: time,
  order,
  limit: z._default(z.coerce.number().int().min(1).max(MOST_LISTED), 50),
  cursor,
});
