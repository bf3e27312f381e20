import type * as z from 'zod';
import {
  answerBody,
  approveBody,
  breakpointsBody,
  byBody,
  cancelBody,
  commandsBody,
  editCallBody,
  editTurnBody,
  rejectBody,
  resolveBody,
  sendBody,
} from './request-bodies.ts';

/**
 * One command route. `needsAgent`: the command is refused unless this server has the run's agent, because it
 * lets the run continue and this server must then drive it. Commands without it only stop a run, so any server
 * accepts them.
 */
export type CommandPath = { summary: string; body: z.ZodType; needsAgent: boolean };

/**
 * The routes by the last segment of their path. It is also the command type, except for `resume` (no command) and
 * `commands` (a list of commands, which always needs the agent).
 */
export const RUN_COMMANDS = {
  approve: {
    summary: 'Approve a gated call; with `input`, run it with that input instead.',
    body: approveBody,
    needsAgent: true,
  },
  reject: {
    summary: 'Reject a gated call. The model receives the reason.',
    body: rejectBody,
    needsAgent: true,
  },
  answer: {
    summary: 'Provide the result of a call: of a client tool, or of a gated call instead of running it.',
    body: answerBody,
    needsAgent: true,
  },
  resolve: {
    summary: 'Resolve a call in doubt: retry it, or record that it happened or failed.',
    body: resolveBody,
    needsAgent: true,
  },
  send: { summary: 'Send a message; the next turn reads it.', body: sendBody, needsAgent: true },
  pause: {
    summary: 'Pause the run before the next action that costs tokens or has side effects.',
    body: byBody,
    needsAgent: false,
  },
  unpause: { summary: 'Continue a paused run.', body: byBody, needsAgent: true },
  step: {
    summary: 'Run one model call or one batch of tool calls, then pause again.',
    body: byBody,
    needsAgent: true,
  },
  breakpoints: {
    summary: 'Set the breakpoints of a run: it pauses before an action that one of them matches.',
    body: breakpointsBody,
    needsAgent: false,
  },
  'edit-turn': {
    summary: 'Replace the text or the calls of the latest turn, while none of its calls has started.',
    body: editTurnBody,
    needsAgent: true,
  },
  'edit-call': {
    summary: 'Replace the input of a call that has not started.',
    body: editCallBody,
    needsAgent: true,
  },
  cancel: { summary: 'Cancel the run.', body: cancelBody, needsAgent: false },
  resume: {
    summary: 'Continue a run whose process ended. Journals only the claim.',
    body: byBody,
    needsAgent: true,
  },
  commands: {
    summary: 'Submit several commands in order, as one append: all are accepted or none.',
    body: commandsBody,
    needsAgent: true,
  },
} as const satisfies Record<string, CommandPath>;

type CommandName = keyof typeof RUN_COMMANDS;

/** Makes something for the route of each command. */
export function forCommands<Made>(
  make: (name: CommandName, path: CommandPath) => Made,
): Record<`POST /runs/:id/${CommandName}`, Made> {
  const all = Object.entries(RUN_COMMANDS) as [CommandName, CommandPath][];
  return Object.fromEntries(
    all.map(([name, path]) => [`POST /runs/:id/${name}`, make(name, path)]),
  ) as Record<`POST /runs/:id/${CommandName}`, Made>;
}
