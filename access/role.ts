// access: who sends a request, and what its role may do, for the server and for every front.

import type { RunCommand } from '../protocol/run-command.ts';

export const ROLES = ['operator', 'approver', 'requester', 'viewer', 'client'] as const;
export type Role = (typeof ROLES)[number];

/**
 * What a request does. `read`: runs; `inspect`: agents from inside, and raw requests of runs; `start`: a run; `send`: a
 * message; `result`: give the result of a client's tool, or answer what a tool asks; `decide`: about a call; `command`:
 * every other way to change runs, such as to edit, fork, cancel and delete them; `generate`: responses with `/v1`.
 */
export const RIGHTS = [
  'read',
  'inspect',
  'start',
  'send',
  'result',
  'decide',
  'command',
  'generate',
] as const;
export type Right = (typeof RIGHTS)[number];

/** The one table of what roles may do. */
const ROLE_TABLE: Readonly<Record<Role, { rights: readonly Right[]; words: string }>> = {
  operator: { rights: RIGHTS, words: 'can do everything' },
  approver: {
    rights: ['read', 'inspect', 'result', 'decide'],
    words: 'can only read runs and decide calls (approve, reject, answer, resolve)',
  },
  requester: {
    rights: ['read', 'start', 'send', 'result'],
    words: 'can only start runs, read them, write in them and answer what they ask; it decides nothing',
  },
  viewer: { rights: ['read', 'inspect'], words: 'can only read runs' },
  client: { rights: ['generate'], words: 'can only use /v1' },
};

const RIGHT_OF: Readonly<Partial<Record<string, Right>>> = {
  start: 'start',
  send: 'send',
  answer: 'result',
  approve: 'decide',
  reject: 'decide',
  resolve: 'decide',
};

export function may({ role }: { role: Role }, right: Right): boolean {
  return rightsOf({ role }).includes(right);
}

export function rightsOf({ role }: { role: Role }): readonly Right[] {
  return ROLE_TABLE[role].rights;
}

/** The right to submit a command of this type to a run; `start` is one too. To answer a gated call is to decide it. */
export function rightOf(type: RunCommand['type'] | 'start' | 'resume' | 'fork'): Right {
  return RIGHT_OF[type] ?? 'command';
}

/** Whether the caller may submit the command. To decline the questions of a tool (`to`) is to answer them. */
export function mayCommand(
  caller: { role: Role },
  { type, to }: { type: Parameters<typeof rightOf>[0]; to?: 'question' | 'result' | undefined },
): boolean {
  return may(caller, type === 'reject' && to === 'question' ? 'result' : rightOf(type));
}

/** Why a request is refused, for its sender. */
export function describeRole({ role }: { role: Role }): string {
  return `The role "${role}" ${ROLE_TABLE[role].words}.`;
}
