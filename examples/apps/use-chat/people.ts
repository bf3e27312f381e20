import type { Authorize } from 'agentchart/server';

/** Stands for the sign-in of your shop: whose cookie a request has. Without a role, a person decides nothing. */
const people = new Map([
  [secretOf('CUSTOMER_KEY'), { name: 'ann' }],
  [secretOf('MANAGER_KEY'), { name: 'mia', role: 'approver' as const, groups: ['managers'] }],
]);

export const authorize: Authorize = request =>
  people.get(/(?:^|; )key=([^;]+)/.exec(request.headers.get('cookie') ?? '')?.[1] ?? '') ?? null;

function secretOf(name: string): string {
  const secret = process.env[name] ?? '';
  if (secret.length < 16) throw new Error(`Set ${name} to 16 characters or more that cannot be guessed.`);
  return secret;
}
