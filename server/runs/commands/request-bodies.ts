import * as z from 'zod';
import { limitsSchema, paramLimitsSchema, runParamsSchema } from '../../../protocol/config.ts';
import { type Breakpoint, breakpointsSchema } from '../../../protocol/debugger/breakpoint.ts';
import { itemSchema } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { isOutcome } from '../../../protocol/message.ts';
import { listFilterSchema, MOST_LISTED, MOST_SKIPPED } from '../../../protocol/store.ts';
import { settingsSchema } from '../../../protocol/turn.ts';
import { fields, optional } from '../../fields.ts';

const MOST_ITEMS = 1_000;

const json = z
  .custom<JsonValue>(value => value !== undefined, 'expected a JSON value')
  .meta({ description: 'Any JSON value.' });
const callId = z.string().min(1).max(500).meta({ description: 'The id of the call or review.' });
const by = optional(z.string().min(1).max(200), 'Who submits this; recorded in the journal.');
const requestId = optional(
  z.string().min(1).max(64),
  'An id that you choose for this request. After a lost response, send the same request again: it is carried out once. Another request with the same id is refused (`request-reused`), and `details.fields` names the fields that differ.',
);
const groups = optional(
  z.array(z.string().min(1).max(256)).max(100),
  'The groups in whose name `by` decides; with a token that has a name, those of the token count instead.',
);
const sender = { by, groups, requestId };
const digest = optional(
  z.string().max(200),
  'The digest of the call or answer as it was shown. The command is refused if it differs.',
);
const sticky = optional(z.boolean(), 'Also applies to later calls of the same tool.');
const input = z.union(
  [
    z.string().min(1),
    z
      .array(itemSchema)
      .min(1)
      .max(MOST_ITEMS)
      .refine(
        items => !items.some(isOutcome),
        'outcomeOf: outcomes of background work come from its run alone',
      ),
  ],
  `expected a non-empty string, or 1 to ${MOST_ITEMS} items`,
);

const { turns, toolCalls, tokens, cost, activeMs, repeatedFailures } = limitsSchema.shape;

export const startBody = fields({
  agent: optional(z.string(), 'Optional if the server has one agent.'),
  input,
  continues: optional(z.string().min(1), 'The id of an ended run whose transcript the new run continues.'),
  thread: optional(
    z.string().min(1).max(256),
    'The id of the conversation, which has exactly the labels. The run continues its latest run, or the message goes to that one if it has not ended.',
  ),
  limits: z.exactOptional(
    fields({
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
  title: optional(z.string(), 'Default: the first line of what the user said last in the input.'),
  stream: z.exactOptional(z.boolean()),
  runContext: optional(json, 'The run context, for an agent that requires one.'),
  by,
  requestId,
});

const approveBody = fields({
  callId,
  input: z.exactOptional(json),
  answer: optional(
    json,
    'For a review: replaces the answer. A text; of an agent with an output schema, also its value.',
  ),
  digest,
  sticky,
  ...sender,
});

const rejectBody = fields({
  callId,
  reason: optional(z.string(), 'Shown to the model.'),
  digest,
  sticky,
  to: optional(z.literal('question'), 'Refuse to reject anything but the questions of a tool.'),
  ...sender,
});

const answerBody = z.union(
  [
    fields({ callId, output: json, isError: z.exactOptional(z.boolean()), digest, ...sender }),
    fields({ callId, answers: z.record(z.string(), json), digest, ...sender }),
  ],
  'expected callId and either { output, isError? }, or { answers }: values for what the tool asks, by key',
);

const resolveBody = z.union(
  [
    fields({ callId, retry: z.literal(true), force: z.exactOptional(z.boolean()), ...sender }),
    fields({ callId, happened: z.literal(true), output: json, ...sender }),
    fields({ callId, failed: z.string(), ...sender }),
  ],
  'expected callId and exactly one of { retry: true, force? }, { happened: true, output } or { failed: "reason" }',
);

export const sendBody = fields({ message: input, ...sender });

export const byBody = fields(sender);

const signInBody = fields({
  server: z.string().min(1).max(500).meta({ description: 'The name of the tool server, as in `open`.' }),
  ...sender,
});

const breakpointsBody = fields({
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

const editTurnBody = fields({
  turn: optional(z.number().int().positive(), 'The turn that was reviewed. Default: the latest.'),
  text: optional(z.string(), 'Replaces its text. Default: unchanged.'),
  calls: optional(
    z
      .array(fields({ callId: z.exactOptional(callId), name: z.string().min(1).max(500), input: json }))
      .max(MOST_CALLS),
    'Replaces its calls. A new call has no callId. Default: unchanged.',
  ),
  ...sender,
});

const editCallBody = fields({ callId, input: json, digest, ...sender });

const cancelBody = fields({ reason: z.exactOptional(z.string()), ...sender });

const MOST_COMMANDS = 100;

const params = fields({
  ...runParamsSchema.shape,
  settings: z.exactOptional(fields(settingsSchema.shape)),
  limits: z.exactOptional(fields(paramLimitsSchema.shape)),
});

const typed = <Type extends string>(type: Type) => ({ type: z.literal(type) });
const [retryBody, happenedBody, failedBody] = resolveBody.options;
const [outputBody, answersBody] = answerBody.options;

/** Each command is the body of its route plus its `type`. */
export const commandBody = z.union(
  [
    fields({ ...typed('approve'), ...approveBody.shape }),
    fields({ ...typed('reject'), ...rejectBody.shape }),
    fields({ ...typed('answer'), ...outputBody.shape }),
    fields({ ...typed('answer'), ...answersBody.shape }),
    fields({ ...typed('resolve'), ...retryBody.shape }),
    fields({ ...typed('resolve'), ...happenedBody.shape }),
    fields({ ...typed('resolve'), ...failedBody.shape }),
    fields({ ...typed('send'), ...sendBody.shape }),
    fields({ ...typed('set-params'), params, ...sender }),
    fields({ ...typed('breakpoints'), ...breakpointsBody.shape }),
    fields({ ...typed('edit-turn'), ...editTurnBody.shape }),
    fields({ ...typed('edit-call'), ...editCallBody.shape }),
    fields({ type: z.enum(['pause', 'unpause', 'step']), ...sender }),
    fields({ ...typed('sign-in'), ...signInBody.shape }),
    fields({ ...typed('cancel'), ...cancelBody.shape }),
  ],
  'expected a "type" (approve, reject, answer, resolve, send, set-params, breakpoints, edit-turn, edit-call, pause, unpause, step, sign-in or cancel) and its fields',
);

export const commandsBody = z.array(commandBody).min(1).max(MOST_COMMANDS);

export const sessionBody = fields({ token: z.string().max(10_000) });

const { status, agent, model, errorCode, text, sort, order, cursor } = listFilterSchema.shape;
const time = optional(z.coerce.number(), 'ms since the epoch');
const flag = z.literal('true').transform((): true => true);

/** Which runs a request is about; `label` is read by `parseLabels`. */
export const filterFields = {
  status,
  agent,
  label: optional(z.array(z.string()), 'NAME=VALUE; repeatable. The run has all of these labels.'),
  thread: optional(z.string().max(256), 'The id of a thread: the runs of all threads with it.'),
  parent: agent,
  text,
  folded: optional(
    flag,
    'No runs of sub-agents, of each thread only the latest run, and of the runs with one `session` label only the newest.',
  ),
  doubt: optional(flag, 'Only runs that wait for the decision of a doubt.'),
  model,
  errorCode,
  waiting: optional(
    z.literal('false').transform((): false => false),
    'No runs that wait.',
  ),
  since: time,
  before: time,
};

export const listQuery = fields({
  ...filterFields,
  sort,
  order,
  skip: optional(
    z.coerce.number().int().min(0).max(MOST_SKIPPED),
    'How many runs to leave out before the first one. Not with a cursor.',
  ),
  limit: z._default(z.coerce.number().int().min(1).max(MOST_LISTED), 50),
  cursor,
});

export type CommandPath = { summary: string; body: z.ZodType };

/** The commands that only stop a run. The others let it continue, so this server must have its agent. */
const STOPPING: readonly string[] = ['pause', 'breakpoints', 'cancel'];

/** Whether a command is refused unless this server has the run's agent. */
export function needsAgent(name: string): boolean {
  return !STOPPING.includes(name);
}

/** The last segment of their path is also the command type, except for `resume` (no command) and `commands` (a list). */
export const RUN_COMMANDS = {
  approve: {
    summary:
      'Approve a gated call; with `input`, run it with that input instead. Or approve an answer under review; with `answer`, give that instead.',
    body: approveBody,
  },
  reject: {
    summary:
      'Reject a gated call, send back an answer under review, or decline the questions of a tool. The model receives the reason.',
    body: rejectBody,
  },
  answer: {
    summary:
      'Provide the result of a call: of a client tool, or of a gated call instead of running it. Or answer the questions of its tool.',
    body: answerBody,
  },
  resolve: {
    summary: 'Resolve a call in doubt: retry it, or record that it happened or failed.',
    body: resolveBody,
  },
  send: { summary: 'Send a message; the next turn reads it.', body: sendBody },
  pause: {
    summary: 'Pause the run before the next action that costs tokens or has side effects.',
    body: byBody,
  },
  unpause: { summary: 'Continue a paused run.', body: byBody },
  step: { summary: 'Run one model call or one batch of tool calls, then pause again.', body: byBody },
  'sign-in': {
    summary: 'Say that a person has signed in at a tool server: the run connects to it again.',
    body: signInBody,
  },
  breakpoints: {
    summary: 'Set the breakpoints of a run: it pauses before an action that one of them matches.',
    body: breakpointsBody,
  },
  'edit-turn': {
    summary: 'Replace the text or the calls of the latest turn, while none of its calls has started.',
    body: editTurnBody,
  },
  'edit-call': { summary: 'Replace the input of a call that has not started.', body: editCallBody },
  cancel: { summary: 'Cancel the run.', body: cancelBody },
  resume: { summary: 'Continue a run whose process ended. Journals only the claim.', body: byBody },
  commands: {
    summary: 'Submit several commands in order, as one append: all are accepted or none.',
    body: commandsBody,
  },
} as const satisfies Record<string, CommandPath>;

type CommandName = keyof typeof RUN_COMMANDS;

export function forCommands<Made>(
  make: (name: CommandName, path: CommandPath) => Made,
): Record<`POST /runs/:id/${CommandName}`, Made> {
  const all = Object.entries(RUN_COMMANDS) as [CommandName, CommandPath][];
  return Object.fromEntries(
    all.map(([name, path]) => [`POST /runs/:id/${name}`, make(name, path)]),
  ) as Record<`POST /runs/:id/${CommandName}`, Made>;
}
