import type * as z from 'zod';
import type { CommandResult, SubmitResult } from '../../engine/explain-refusal.ts';
import type { Run } from '../../engine/run.ts';
import {
  answerBody,
  approveBody,
  byBody,
  cancelBody,
  commandsBody,
  rejectBody,
  resolveBody,
  sendBody,
} from './request-bodies.ts';

/** What can be said to a run: its body, and how it is put to the run. */
export type RunCommand<Schema extends z.ZodType = z.ZodType> = {
  summary: string;
  body: Schema;
  /** Whether it has its whole effect without the run being driven, so that its agent need not be served. */
  needsAgent: boolean;
  apply(run: Run, body: z.output<Schema>): Promise<CommandResult | SubmitResult>;
};

function command<Schema extends z.ZodType>(definition: RunCommand<Schema>): RunCommand<Schema> {
  return definition;
}

const approve = command({
  summary: 'Let a call run that waits for approval, with an edited input if `input` is given.',
  body: approveBody,
  needsAgent: true,
  apply: (run, { callId, ...decision }) => run.approve(callId, decision),
});

const reject = command({
  summary: 'Refuse a call that waits for approval; the model is told.',
  body: rejectBody,
  needsAgent: true,
  apply: (run, { callId, ...decision }) => run.reject(callId, decision),
});

const answer = command({
  summary: 'Give a call its result: one the client runs, or one that is not to run.',
  body: answerBody,
  needsAgent: true,
  apply: (run, { callId, ...result }) => run.answer(callId, result),
});

const resolve = command({
  summary: 'Say what became of a call that may or may not have happened.',
  body: resolveBody,
  needsAgent: true,
  apply: (run, { callId, ...resolution }) => run.resolve(callId, resolution),
});

const send = command({
  summary: 'Send a message for the next turn.',
  body: sendBody,
  needsAgent: true,
  apply: (run, { message, ...who }) => run.send(message, who),
});

const pause = command({
  summary: 'Rest before anything more is spent.',
  body: byBody,
  needsAgent: false,
  apply: (run, who) => run.pause(who),
});

const unpause = command({
  summary: 'Let a paused run go on.',
  body: byBody,
  needsAgent: true,
  apply: (run, who) => run.unpause(who),
});

const step = command({
  summary: 'Let one model call or one batch of tools through, and pause.',
  body: byBody,
  needsAgent: true,
  apply: (run, who) => run.step(who),
});

const cancel = command({
  summary: 'End the run.',
  body: cancelBody,
  needsAgent: false,
  apply: (run, body) => run.cancel(body),
});

const resume = command({
  summary: 'Go on with a run whose process ended. Journals nothing but the claim.',
  body: byBody,
  needsAgent: true,
  apply: async () => ({ accepted: true }),
});

const commands = command({
  summary: 'Put several commands to the run at once, in their order: all are taken, or none is.',
  body: commandsBody,
  needsAgent: true,
  apply: (run, all) => run.submit(all),
});

/** By the last part of their path. */
export const RUN_COMMANDS = {
  approve,
  reject,
  answer,
  resolve,
  send,
  pause,
  unpause,
  step,
  cancel,
  resume,
  commands,
} as const;
