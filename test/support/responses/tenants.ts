import type { JsonObject } from '../../../protocol/json.ts';
import { calling } from './gateway.ts';

const token = (name: string, labels?: JsonObject) => ({
  token: `the-token-of-${name}-0000000`,
  role: name === 'boss' ? 'operator' : 'client',
  ...(labels && { labels }),
});
export const TOKENS = {
  anna: token('anna', { tenant: 'a' }),
  otto: token('otto', { tenant: 'a' }),
  bert: token('bert', { tenant: 'b' }),
  many: token('many', { tenant: 'a', team: '1' }),
  sole: token('sole'),
  lone: token('lone'),
  boss: token('boss'),
};
export type Name = keyof typeof TOKENS;
/** Everybody whose labels are not those of anna. */
export const STRANGERS: Name[] = ['bert', 'many', 'sole'];

export const SECRET = 'mangrove';
export const ASK = { type: 'function', name: 'ask' };
export const DESK = { type: 'mcp', server_label: 'desk' };
export const LOOK = calling('echo', { text: SECRET });
export const FREE = { ...DESK, require_approval: 'never' };

export const as = (name: Name) => ({ authorization: `Bearer ${TOKENS[name].token}` });

/** An id of the same form that nothing has. */
export function absent(id: string): string {
  return id.replace(/[0-9a-f]{32}/, '0'.repeat(32));
}

/** An answer without what differs between any two requests. */
export async function read(response: Response, id: string): Promise<{ status: number; body: string }> {
  const text = await response.text();
  const body = text
    .replaceAll(id, 'ID')
    .replaceAll(/[0-9a-f]{32}/g, 'HEX')
    .replaceAll(/[0-9a-f]{12}\b/g, 'DIGEST')
    .replaceAll(/"(created|created_at|completed_at)":\d+/g, '"$1":0');
  return { status: response.status, body };
}
