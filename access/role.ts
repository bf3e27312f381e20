// access: who sends a request, and what its role may do, for the server and for every front.

export const ROLES = ['operator', 'approver', 'viewer', 'client'] as const;
export type Role = (typeof ROLES)[number];

/** `command`: every other way to change runs: start, continue and delete them too. `generate`: responses with `/v1`. */
export type Right = 'read' | 'decide' | 'command' | 'generate';

const RIGHTS: Readonly<Record<Role, { rights: readonly Right[]; words: string }>> = {
  operator: { rights: ['read', 'decide', 'command', 'generate'], words: 'can do everything' },
  approver: {
    rights: ['read', 'decide'],
    words: 'can only read runs and decide calls (approve, reject, answer, resolve)',
  },
  viewer: { rights: ['read'], words: 'can only read runs' },
  client: { rights: ['generate'], words: 'can only use /v1' },
};

const DECISIONS: readonly string[] = ['approve', 'reject', 'answer', 'resolve'];

export function may({ role }: { role: Role }, right: Right): boolean {
  return RIGHTS[role].rights.includes(right);
}

/** The right to submit a command of this type to a run; `start` is one too. */
export function rightOf(type: string): Right {
  return DECISIONS.includes(type) ? 'decide' : 'command';
}

export function mayCommand(caller: { role: Role }, type: string): boolean {
  return may(caller, rightOf(type));
}

/** Why a request is refused, for its sender. */
export function describeRole({ role }: { role: Role }): string {
  return `The role "${role}" ${RIGHTS[role].words}.`;
}
