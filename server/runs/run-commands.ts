import type * as z from 'zod';
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

/** What can be said to a run. `needsAgent`: it has its effect only when the run is driven, so that its agent must be served. */
export type CommandPath = { summary: string; body: z.ZodType; needsAgent: boolean };

/** By the last part of their path: the command's type, but for the last two. */
export const RUN_COMMANDS = {
  approve: {
    summary: 'Let a call run that waits for approval, with an edited input if `input` is given.',
    body: approveBody,
    needsAgent: true,
  },
  reject: {
    summary: 'Refuse a call that waits for approval; the model is told.',
    body: rejectBody,
    needsAgent: true,
  },
  answer: {
    summary: 'Give a call its result: one the client runs, or one that is not to run.',
    body: answerBody,
    needsAgent: true,
  },
  resolve: {
    summary: 'Say what became of a call that may or may not have happened.',
    body: resolveBody,
    needsAgent: true,
  },
  send: { summary: 'Send a message for the next turn.', body: sendBody, needsAgent: true },
  pause: { summary: 'Rest before anything more is spent.', body: byBody, needsAgent: false },
  unpause: { summary: 'Let a paused run go on.', body: byBody, needsAgent: true },
  step: {
    summary: 'Let one model call or one batch of tools through, and pause.',
    body: byBody,
    needsAgent: true,
  },
  cancel: { summary: 'End the run.', body: cancelBody, needsAgent: false },
  resume: {
    summary: 'Go on with a run whose process ended. Journals nothing but the claim.',
    body: byBody,
    needsAgent: true,
  },
  commands: {
    summary: 'Put several commands to the run at once, in their order: all are taken, or none is.',
    body: commandsBody,
    needsAgent: true,
  },
} as const satisfies Record<string, CommandPath>;
